/**
 * The readable text of an HTML page: what a person would see, with headings, lists, tables and the URLs of links.
 *
 * The page is hostile. It is read token by token, without a tree and without recursion, so that the time and the memory depend on its length
 * alone: 100,000 nested elements cost as much as 100,000 in a row. Parsers that make a tree need minutes for such a page.
 */
import type { TokenizerCallbacks } from "htmlparser2"
import { makeTextWriter } from "./textWriter.ts"

export interface HtmlText {
  readonly title: string
  readonly text: string
}

/** The text of a page at this URL. Links are made absolute. */
export const htmlText = async (html: string, pageUrl: URL): Promise<HtmlText> => {
  const { Tokenizer } = await import("htmlparser2")
  const reader = makeReader(html, pageUrl)
  const tokenizer = new Tokenizer({ xmlMode: false, decodeEntities: true }, reader.callbacks)
  tokenizer.write(html)
  tokenizer.end()
  return reader.end()
}

/** Elements without an end tag. */
const empty = new Set("area base br col embed hr img input link meta param source track wbr".split(" "))

/** Elements whose content is not text for a person. */
const unseen = new Set(
  "audio canvas datalist iframe math noembed noframes object script select style svg template video".split(
    " "
  )
)

/** Elements that another element of the same name, or the end of their parent, ends. */
const endsByItself = new Set("dd dt li option p td th tr".split(" "))

/** How many line breaks separate an element from its surroundings. */
const breaks = new Map<string, number>([
  ..."address caption center dd details dialog div dt fieldset figcaption form legend li option summary tbody tfoot thead tr"
    .split(" ")
    .map((name) => [name, 1] as const),
  ..."article aside blockquote body dl figure footer h1 h2 h3 h4 h5 h6 header hr main nav ol p pre section table ul"
    .split(" ")
    .map((name) => [name, 2] as const)
])

const attributes = new Set(["alt", "hidden", "href", "style"])
/** Elements that begin with a marker, which an empty one does not leave to the next text. */
const marked = /^(h[1-6]|li|ol|ul)$/
/** The longest value of an attribute that is read. */
const longestValue = 2000
/** A page has fewer, and each can be longer than its element. */
const mostLinks = 5000
const deepestList = 6

interface Skipped {
  readonly name: string
  /** The open elements of the same name; for one that ends by itself, the open elements inside it. */
  depth: number
}

const makeReader = (html: string, pageUrl: URL) => {
  const writer = makeTextWriter()
  /** The numbers of the items of the open lists; `undefined` if a list has none. */
  const lists: Array<{ item: number | undefined }> = []
  let deeperLists = 0
  let base = pageUrl
  let cells = 0
  let links = 0
  let link: { readonly url: string; readonly written: number } | undefined
  let text = ""
  let title: string | undefined
  let inTitle = false
  let skipped: Skipped | undefined
  let tag = ""
  let attribute = ""
  let values: Record<string, string> = {}

  /** Writes the text before a tag, which the tokenizer gives in many pieces. */
  const flush = (): void => {
    if (text === "") return
    if (inTitle) title = (title ?? "") + text.slice(0, longestValue)
    else if (skipped === undefined) writer.text(text)
    text = ""
  }

  const addValue = (part: string): void => {
    const value = values[attribute] ?? ""
    if (attribute !== "" && value.length < longestValue)
      values[attribute] = value + part.slice(0, longestValue)
  }

  const endLink = (): void => {
    if (link !== undefined && writer.written() > link.written && link.url !== "")
      writer.append(` (${link.url})`)
    link = undefined
  }

  const startLink = (href: string): void => {
    endLink()
    if (href === "" || href.startsWith("#") || links >= mostLinks) return
    const url = URL.parse(href, base.href)
    if (url === null || !/^https?:$/.test(url.protocol) || url.href.length > longestValue) return
    links++
    link = { url: url.href, written: writer.written() }
  }

  const startItem = (): void => {
    const list = lists.at(-1)
    const marker = list?.item === undefined ? "-" : `${list.item++}.`
    writer.marker(`${"  ".repeat(Math.max(0, lists.length - 1))}${marker} `)
  }

  const open = (isClosed: boolean): void => {
    flush()
    if (skipped !== undefined) {
      if (tag !== skipped.name || !endsByItself.has(tag)) {
        if (endsByItself.has(skipped.name) ? !empty.has(tag) : tag === skipped.name) skipped.depth++
        return
      }
      skipped = undefined
    }
    const isHidden =
      values["hidden"] !== undefined ||
      /display\s*:\s*none|visibility\s*:\s*hidden/i.test(values["style"] ?? "")
    if ((isHidden || unseen.has(tag)) && !empty.has(tag)) {
      if (!isClosed) skipped = { name: tag, depth: endsByItself.has(tag) ? 0 : 1 }
      return
    }
    if (isHidden) return
    writer.lineBreaks(breaks.get(tag) ?? 0)
    switch (tag) {
      case "a":
        return startLink(values["href"] ?? "")
      case "base":
        base = URL.parse(values["href"] ?? "", base.href) ?? base
        return
      case "br":
        return writer.lineBreak()
      case "img":
        if (values["alt"]) writer.text(`[image: ${values["alt"]}]`)
        return
      case "li":
        return startItem()
      case "ol":
      case "ul":
        if (lists.length < deepestList) lists.push({ item: tag === "ol" ? 1 : undefined })
        else deeperLists++
        return
      case "pre":
        return writer.openVerbatim()
      case "td":
      case "th":
        if (cells++ > 0) writer.separator(" | ")
        return
      case "title":
        inTitle = title === undefined
        return
      case "tr":
        cells = 0
        return
      default:
        if (/^h[1-6]$/.test(tag)) writer.marker(`${"#".repeat(Number(tag[1]))} `)
    }
  }

  const close = (name: string): void => {
    flush()
    if (skipped !== undefined) {
      if (!endsByItself.has(skipped.name)) {
        if (name === skipped.name && --skipped.depth === 0) skipped = undefined
        return
      }
      if (skipped.depth-- > 0) return
      skipped = undefined
    }
    if (name === "a") endLink()
    else if (name === "title") inTitle = false
    else if (name === "pre") writer.closeVerbatim()
    else if (name === "ol" || name === "ul") {
      if (deeperLists > 0) deeperLists--
      else lists.pop()
    }
    if (marked.test(name)) writer.marker("")
    writer.lineBreaks(breaks.get(name) ?? 0)
  }

  const callbacks: TokenizerCallbacks = {
    ontext: (start, end) => {
      text += html.slice(start, end)
    },
    ontextentity: (codePoint) => {
      text += String.fromCodePoint(codePoint)
    },
    onopentagname: (start, end) => {
      tag = html.slice(start, Math.min(end, start + 20)).toLowerCase()
      values = {}
    },
    onattribname: (start, end) => {
      const name = end - start > 10 ? "" : html.slice(start, end).toLowerCase()
      // The first attribute of a name counts.
      attribute = attributes.has(name) && values[name] === undefined ? name : ""
      if (attribute !== "") values[attribute] = ""
    },
    onattribdata: (start, end) => addValue(html.slice(start, Math.min(end, start + longestValue))),
    onattribentity: (codePoint) => addValue(String.fromCodePoint(codePoint)),
    onattribend: () => {
      attribute = ""
    },
    onopentagend: () => open(false),
    onselfclosingtag: () => open(tag === "svg" || tag === "math"),
    onclosetag: (start, end) =>
      close(
        html
          .slice(start, Math.min(end, start + 20))
          .trim()
          .toLowerCase()
      ),
    oncdata: () => {},
    oncomment: () => {},
    ondeclaration: () => {},
    onprocessinginstruction: () => {},
    onend: () => {}
  }

  return {
    callbacks,
    end: (): HtmlText => {
      flush()
      endLink()
      return { title: (title ?? "").replaceAll(/\s+/g, " ").trim(), text: writer.end() }
    }
  }
}
