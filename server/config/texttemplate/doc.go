// Package texttemplate executes the templates that people write into a
// configuration: user data, arguments, files and the names in certificates.
//
// They are Go's text/template with an error for every missing key, a short list
// of functions, and nothing that reaches a file, the network, the environment or
// another program. A template can't run for ever or fill the memory either: the
// size of its output, the rounds of its loops, the depth of its calls and the
// bytes that its functions may produce are all bounded.
//
// The functions, besides those of text/template: default, quote, squote,
// indent, nindent, trim, lower, upper, replace, join, split, b64enc, b64dec,
// toJson and sha256sum. The value that a pipeline carries comes last, as in
// {{ .Vars.name | default "web" | quote }}.
//
// Errors are [Error]. They name the template and the line, and never contain a
// value of the data, the registration nonce least of all.
package texttemplate
