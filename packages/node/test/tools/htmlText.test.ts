/**
 * The text of pages, honest and hostile.
 */
import { assert, describe, it } from "vitest"
import { timeSpent } from "../../../sdk/test/helpers/timeSpent.ts"
import { htmlText } from "../../src/tools/internal/htmlText.ts"

const page = new URL("https://example.com/docs/page")
const textOf = async (html: string) => (await htmlText(html, page)).text

describe("The text of an HTML page", () => {
  it("has the headings, lists, tables, code and links that a person sees", async () => {
    const { text, title } = await htmlText(
      `<!doctype html><html><head><title>The &amp;\n Title</title><style>p { color: red }</style></head><body>
      <nav><a href="/">Home</a> <a href="#top">Top</a></nav>
      <h1>One   <em>big</em> heading</h1>
      <p>A paragraph with <b>bold</b>, <a href="../a?b=c&amp;d=e">a link</a> and an image <img src="x.png" alt="of a cat">.<p>Another<br>line.
      <ul><li>first<li>second<ol><li>nested</ol></ul>
      <table><tr><th>Name<th>Age<tr><td>Ana<td>41</table>
      <pre>  let x = 1
  let y = 2</pre>
      <script>track("reader")</script><noscript>No scripts</noscript>`,
      page
    )
    assert.strictEqual(title, "The & Title")
    assert.strictEqual(
      text,
      [
        "Home (https://example.com/) Top",
        "",
        "# One big heading",
        "",
        "A paragraph with bold, a link (https://example.com/a?b=c&d=e) and an image [image: of a cat].",
        "",
        "Another",
        "line.",
        "",
        "- first",
        "- second",
        "",
        "  1. nested",
        "",
        "Name | Age",
        "Ana | 41",
        "",
        "```",
        "  let x = 1",
        "  let y = 2",
        "```",
        "",
        "No scripts"
      ].join("\n")
    )
  })

  it("leaves out what a person does not see", async () => {
    for (const hidden of [
      "<div hidden>secret</div>",
      "<p hidden>secret<p>",
      "<div><p hidden>secret</div>",
      "<ul><li hidden>secret <b>bold</b><li></ul>",
      '<div style="color:red; DISPLAY : none"><div>secret</div>secret</div>',
      '<span style="visibility:hidden">secret</span>',
      "<template><div>secret</div></template>",
      "<svg><title>secret</title><text>secret</text></svg>",
      "<script>secret</script>",
      "<STYLE>secret</STYLE>",
      "<textarea hidden>secret</textarea>",
      "<!-- secret -->",
      '<img alt="secret" hidden>',
      '<p title="secret" data-x="<b>secret</b>"></p>',
      "<iframe>secret</iframe>"
    ])
      assert.strictEqual(await textOf(`<p>before</p>${hidden}<span>after</span>`), "before\n\nafter", hidden)
  })

  it("reads pages that are not well formed", async () => {
    assert.strictEqual(
      await textOf("no tags & no <entities> &nosuch; &lt;b&gt; &#x41;&#66;&eacute;"),
      "no tags & no &nosuch; <b> ABé"
    )
    assert.strictEqual(await textOf("</p></ul></pre></a></title>text<"), "text<")
    assert.strictEqual(
      await textOf("<a href='javascript:x'>one</a><a href='mailto:a@b'>two</a><a href='http://['>three"),
      "onetwothree"
    )
    assert.strictEqual(
      await textOf('<a href="/a">one<a href="/b">two'),
      "one (https://example.com/a)two (https://example.com/b)"
    )
    assert.strictEqual(
      await textOf('<base href="https://other.com/x/"><a href="y">z</a>'),
      "z (https://other.com/x/y)"
    )
    assert.strictEqual(
      await textOf("<table><tr><td><a href=z>cell</a><td><td>third</table>"),
      "cell (https://example.com/docs/z) | third"
    )
    assert.strictEqual(await textOf(""), "")
  })

  it("takes time that grows with the length of a page alone", { timeout: 60_000 }, async () => {
    const length = 2_000_000
    for (const part of [
      "<div>",
      "<b>",
      "<ul><li>x",
      "<p hidden>",
      "<p>x",
      "<",
      "&",
      "&lt;",
      '<a href="/x">y</a>',
      "</span>",
      "<!--",
      '<a href="',
      " ",
      "a"
    ]) {
      const spent = timeSpent()
      await textOf(part.repeat(length / part.length))
      const { cpuMs } = spent()
      console.log(`${JSON.stringify(part)}: ${Math.round(cpuMs)} ms of CPU for ${length / 1e6} MB`)
      // Far above what it takes, and far below what a parser takes whose time grows with the depth.
      assert.isBelow(cpuMs, 5000)
    }
    const depth = 100_000
    assert.strictEqual(await textOf(`${"<div>".repeat(depth)}deep${"</div>".repeat(depth)}`), "deep")
    assert.strictEqual(await textOf(`${"<div>".repeat(depth)}${"</span>".repeat(depth)}wide`), "wide")
  })
})
