package console

import (
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// The pages as they were built from web/; see digest.go for how they are kept
// in step.
//
//go:embed all:web/dist
var built embed.FS

// pages are the files that a browser gets.
type pages struct {
	files map[string][]byte // by path, as in an address
}

func readPages() (*pages, error) {
	p := &pages{files: map[string][]byte{}}
	dist, err := fs.Sub(built, "web/dist")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	err = fs.WalkDir(dist, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dist, name)
		p.files["/"+name] = data
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return p, nil
}

// kinds are those of the files that a build makes; those of the system are not asked,
// which may say anything.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".json": "application/json",
}

// public reports whether a file is for those who are not logged in, too: there is nothing
// of a cluster in it.
func (p *pages) public(name string) bool {
	return strings.HasPrefix(name, "/assets/") && p.files[name] != nil
}

// serve answers with a file, or with the page that all addresses share.
func (p *pages) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "there is nothing to send here", http.StatusMethodNotAllowed)
		return
	}
	name, h := path.Clean("/"+r.URL.Path), w.Header()
	data, ok := p.files[name]
	switch {
	case ok && strings.HasPrefix(name, "/assets/"):
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // its name changes with it
	case strings.HasPrefix(name, "/assets/"):
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	default:
		if !ok || name == "/index.html" {
			name = "/index.html"
			data = p.files[name]
		}
		h.Set("Cache-Control", "no-cache")
	}
	kind := kinds[path.Ext(name)]
	if kind == "" {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	h.Set("Content-Type", kind)
	if r.Method == http.MethodGet {
		_, _ = w.Write(data) // a browser that does not read it is gone
	}
}

const strangerPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Nstance</title></head>
<body><main><h1>Nstance</h1><p>Open the address that <code>nstance-admin console</code> has printed last. An address works once.</p></main></body></html>
`

// stranger answers a browser that is not logged in.
func (p *pages) stranger(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", kinds[".html"])
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(strangerPage)) // a browser that does not read it is gone
}
