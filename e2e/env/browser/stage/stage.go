// Package stage serves the built pages of the web console with a fleet that is made up: one that a
// shard cannot have, because its names are refused there, or that no test has the time to grow. The
// console's real server is what e2e/suite/console tests; this one speaks to browsers as that does.
package stage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// Policy is the content security policy of the console.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Object is a message in its JSON mapping.
type Object = map[string]any

// Event is one of the stream: its name and its data.
type Event struct {
	Name string
	Data any
}

// Stage is a console with a made-up fleet. It is an [http.Handler].
type Stage struct {
	dist    string
	opening []Event           // what a browser gets when it connects
	answers map[string]Object // of other calls, by path

	mu      sync.Mutex
	streams map[chan Event]struct{}
}

// New returns a stage with the pages of a repository. Every browser gets the events first, and
// answers to calls by their path.
func New(root string, opening []Event, answers map[string]Object) *Stage {
	return &Stage{
		dist: filepath.Join(root, "admin", "console", "web", "dist"), opening: opening, answers: answers, streams: map[chan Event]struct{}{},
	}
}

// Send sends an event to all browsers that are connected.
func (s *Stage) Send(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams {
		c <- e
	}
}

// ServeHTTP implements [http.Handler].
func (s *Stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", Policy)
	switch {
	case r.URL.Path == "/api/console/events":
		s.stream(w, r)
	case strings.HasPrefix(r.URL.Path, "/api/"):
		answer, known := s.answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !known {
			w.WriteHeader(http.StatusNotFound)
			answer = Object{"status": "NOT_FOUND", "message": "there is no " + r.URL.Path}
		}
		_ = json.NewEncoder(w).Encode(answer) // who hung up needs no answer
	case strings.HasPrefix(r.URL.Path, "/assets/"):
		http.ServeFile(w, r, filepath.Join(s.dist, filepath.FromSlash(path.Clean(r.URL.Path))))
	default:
		page, err := os.ReadFile(filepath.Join(s.dist, "index.html"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}
}

func (s *Stage) stream(w http.ResponseWriter, r *http.Request) {
	mine := make(chan Event, 64)
	s.mu.Lock()
	s.streams[mine] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, mine)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(e Event) error {
		data, err := json.Marshal(e.Data)
		if err == nil {
			_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Name, data)
		}
		return err
	}
	for _, e := range s.opening {
		if send(e) != nil {
			return
		}
	}
	for {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case e := <-mine:
			if send(e) != nil {
				return
			}
		}
	}
}
