//go:build storage

package storage_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"nstance.dev/e2e/env/storage"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/storetest"
)

// heedDeletes makes up for what the emulator lacks: it refuses a deletion whose
// generation is not the stored one, as Google's servers do. One request at a time
// goes through, so nothing comes between the question and the deletion.
type heedDeletes struct {
	mu       sync.Mutex
	emulator *httputil.ReverseProxy
}

func (h *heedDeletes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if generation := r.URL.Query().Get("ifGenerationMatch"); r.Method == http.MethodDelete && generation != "" {
		if stored := h.generation(r); stored != "" && stored != generation {
			http.Error(w, "conditionNotMet", http.StatusPreconditionFailed)
			return
		}
	}
	h.emulator.ServeHTTP(w, r)
}

// generation asks for that of the object of r; "" if there is none.
func (h *heedDeletes) generation(r *http.Request) string {
	question := r.Clone(r.Context())
	question.Method = http.MethodGet // of the object's metadata
	answer := httptest.NewRecorder()
	h.emulator.ServeHTTP(answer, question)
	var object struct{ Generation string }
	if json.Unmarshal(answer.Body.Bytes(), &object) != nil {
		return ""
	}
	return object.Generation
}

func TestContractOfGCSWithConditionalDeletes(t *testing.T) {
	emulator := storage.GCS(t)
	target, err := url.Parse(emulator.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(&heedDeletes{emulator: proxy})
	t.Cleanup(server.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", server.URL)
	storetest.Run(t, func(t *testing.T) objectstore.Store { return open(t, emulator) })
}
