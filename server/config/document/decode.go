package document

import (
	"nstance.dev/server/config/jsonc"
)

// Decode reads a document: every field that has a default holds it, and "gcp" has become
// "google". It gives the places of all that is written, and what could not be decoded; what
// the values mean it does not judge. The name is that of the file in messages. Where the
// text is no document at all, [jsonc.Document.Empty] says so, and the first result is of no use.
func Decode(name string, data []byte) (*Config, *jsonc.Document, jsonc.Problems) {
	doc := defaults()
	places, problems := jsonc.Decode(name, data, doc)
	if !places.Empty() {
		doc.complete()
	}
	return doc, places, problems
}
