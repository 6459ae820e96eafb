/**
 * Characters that fonts draw as nothing though Unicode counts them as letters or symbols: the braille cell without dots, the object
 * replacement character, the musical null notehead, fillers of Khitan and Egyptian. For a class of a regular expression with the flag `u`.
 */
export const blank = String.raw`\u2800\uFFFC\u{1D159}\u{16FE4}\u{13441}\u{13442}`
