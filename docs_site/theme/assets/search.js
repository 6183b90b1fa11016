/*
 * Writes queries as the search of the theme needs them.
 *
 * Chinese is cut into the words of the search index. The theme does so as well, but its loop ends
 * one character early: it searched 过 for 过敏, and found 过时. So each word is sent with a
 * character behind it that the loop may lose.
 *
 * An option such as --dry-run becomes its words, and a hit must have the longest of them: the
 * theme reads dashes as orders, and fails.
 *
 * Words such as "how" and "a" go, but the last one, which may not be complete: the theme searches
 * all words that begin with them.
 */
(() => {
  const SETUP = 0, QUERY = 2 // types of messages to the theme's search worker
  const HAN = /\p{sc=Han}+/gu
  const LOST = "\u3021" // a character of the script that is in no word
  const OPTION = /(^|\s)--+(\w[\w-]*)/g
  const FILLERS = new Set(
    "a an and are at be by can do does for from how i in is it my of on or that the to what where which with you".split(" ")
  )
  const words = new Set()
  let longest = 1

  const learn = docs => {
    for (const { title, text } of docs)
      for (const [word] of `${title}\u200b${text}`.matchAll(HAN)) {
        words.add(word)
        longest = Math.max(longest, word.length)
      }
  }

  const spell = (_, before, option) => {
    const parts = option.split("-").sort((a, b) => b.length - a.length)
    return `${before}+${parts.join(" ")}`
  }

  const dense = query => {
    const all = query.trim().split(/\s+/)
    return all.filter((word, at) => at === all.length - 1 || !FILLERS.has(word.toLowerCase())).join(" ")
  }

  const cut = run => {
    const parts = []
    let unknown = ""
    for (let at = 0; at < run.length; ) {
      let size = Math.min(longest, run.length - at)
      while (size && !words.has(run.slice(at, at + size))) size--
      if (!size) unknown += run[at++]
      else {
        parts.push(unknown, run.slice(at, at + size) + LOST)
        unknown = ""
        at += size
      }
    }
    return ` ${[...parts, unknown].filter(Boolean).join(" ")} `
  }

  const post = Worker.prototype.postMessage
  Worker.prototype.postMessage = function (message, ...rest) {
    if (message.type === SETUP) learn(message.data.docs)
    if (message.type === QUERY)
      message = { ...message, data: dense(message.data).replace(OPTION, spell).replace(HAN, cut) }
    return post.call(this, message, ...rest)
  }
})()
