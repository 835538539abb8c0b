package handback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"nstance.dev/server/lease"
)

// kept is how many versions of one lock are remembered: a write that got no answer may be
// stored at any later time, as long as no other one is.
const kept = 32

// Notes are the versions of locks that a process was about to store, in a folder of its own
// in the cache folder. They are safe for concurrent use.
type Notes struct {
	dir string

	mu    sync.Mutex
	locks map[string][]lease.Document // by key, the latest last
}

// In returns the notes of the process that has this cache folder.
func In(cacheDir string) *Notes {
	return &Notes{dir: filepath.Join(cacheDir, "leases"), locks: map[string][]lease.Document{}}
}

func (n *Notes) file(key string) string {
	return filepath.Join(n.dir, url.PathEscape(key)+".json")
}

// Add notes a version before it is stored. Versions of an earlier term are forgotten: a
// lock that has them again was put back by hand. The file is replaced at once and never
// half written, and not forced to the disk: it is for those who outlive the process, not
// the machine.
func (n *Notes) Add(key string, doc lease.Document) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	docs := n.locks[key]
	if len(docs) > 0 && docs[0].Term != doc.Term {
		docs = nil
	}
	docs = append(docs, doc)
	docs = docs[max(0, len(docs)-kept):]
	n.locks[key] = docs
	data, err := json.Marshal(docs)
	if err != nil {
		return fmt.Errorf("note lease %s: %w", key, err)
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return fmt.Errorf("note lease %s: %w", key, err)
	}
	part := n.file(key) + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return fmt.Errorf("note lease %s: %w", key, err)
	}
	if err := os.Rename(part, n.file(key)); err != nil {
		return fmt.Errorf("note lease %s: %w", key, err)
	}
	return nil
}

// Of returns the versions that the process before noted; none where there was none.
func (n *Notes) Of(key string) ([]lease.Document, error) {
	data, err := os.ReadFile(n.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read notes of lease %s: %w", key, err)
	}
	var docs []lease.Document
	if err := json.Unmarshal(data, &docs); err != nil {
		return nil, fmt.Errorf("read notes of lease %s: %s: %w", key, n.file(key), err)
	}
	return docs, nil
}
