package gateway

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var document []byte

// Document returns the OpenAPI description of the API.
func Document() []byte { return document }

func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document) // whoever does not read it is gone
}
