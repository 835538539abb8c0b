package sources

import (
	"fmt"

	"nstance.dev/server/render"
)

// Limits of what is held, over which it is forgotten and made again.
const (
	maxTexts = 4096
	maxHeld  = 64 << 20 // bytes, of texts and of what was read
)

// textKey is everything that a text depends on which does not look at the
// instance. The hash stands for the variables and for the file itself.
type textKey struct {
	hash, name string
	cluster    render.Cluster
	server     render.Server
	provider   render.Provider
	images     string
}

func textKeyOf(r Request) textKey {
	key := textKey{hash: r.Hash, name: r.Name, cluster: r.Data.Cluster, server: r.Data.Server, provider: r.Data.Provider}
	if len(r.Data.Image) > 0 {
		key.images = fmt.Sprint(r.Data.Image) // in order of the keys
	}
	return key
}

// text renders a file, or returns what was rendered for another machine.
func (s *Sources) text(r Request) (Content, error) {
	key := textKeyOf(r)
	s.mu.Lock()
	c, ok := s.texts[key]
	s.mu.Unlock()
	if ok {
		return c, nil
	}
	data, err := render.File(r.Name, r.File, r.Data)
	if err != nil {
		return Content{}, err
	}
	c = newContent(data, s.opts.Now())
	if r.Hash == "" || !render.SameForAll(r.File) {
		return c, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.texts[key]; ok {
		return first, nil // the same bytes, of which one copy is enough
	}
	if len(s.texts) >= maxTexts {
		s.forget()
	}
	s.texts[key] = c
	s.hold(len(data))
	return c, nil
}

// hold counts bytes that are kept. The caller holds mu.
func (s *Sources) hold(bytes int) {
	if s.held += bytes; s.held > maxHeld {
		s.forget()
	}
}

// forget drops all contents. Digests stay. The caller holds mu.
func (s *Sources) forget() {
	clear(s.texts)
	for _, e := range s.remote {
		e.last.Data = nil
	}
	s.held = 0
}
