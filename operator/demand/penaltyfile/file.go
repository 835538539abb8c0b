// Package penaltyfile follows the file that says what it costs to disturb Pods of each
// PriorityClass, and to take their machines, where the Pods do not say so themselves.
//
// What stands in such a file says package translate. [Open] refuses a bad file; one that
// becomes bad later is reported, and what was read before stays in force. The file is read
// again and again rather than watched: a mounted ConfigMap is replaced by swapping links.
package penaltyfile

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"nstance.dev/operator/demand/translate"
)

// Interval is how often the file is read.
const Interval = 10 * time.Second

// File is a file that is followed. It is safe for concurrent use.
type File struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	read    []byte // last
	classes map[string]translate.Penalties
	changed []func(classes []string)
}

// Open reads the file. An empty path is that of a file without penalties.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	if path == "" {
		return f, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read penalties of priority classes: %w", err)
	}
	if f.classes, err = translate.ParseClasses(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.read = data
	return f, nil
}

// Classes returns the penalties by the name of the PriorityClass. They must not be changed.
func (f *File) Classes() map[string]translate.Penalties {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.classes
}

// OnChange has a function called with the names of the PriorityClasses whose penalties have
// changed. It is called by the goroutine of Run, one call at a time.
func (f *File) OnChange(changed func(classes []string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = append(f.changed, changed)
}

// Run reads the file every [Interval] until ctx ends.
func (f *File) Run(ctx context.Context) error {
	if f.path == "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f.reload(ctx)
		}
	}
}

func (f *File) reload(ctx context.Context) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		f.log.WarnContext(ctx, "penalties of priority classes not read, keeping the previous ones", "file", f.path, "error", err)
		return
	}
	f.mu.Lock()
	same := bytes.Equal(data, f.read)
	f.read = data
	f.mu.Unlock()
	if same {
		return // a bad file is reported once
	}
	next, err := translate.ParseClasses(data)
	if err != nil {
		f.log.WarnContext(ctx, "penalties of priority classes refused, keeping the previous ones", "file", f.path, "error", err)
		return
	}
	f.mu.Lock()
	differ := differences(f.classes, next)
	f.classes = next
	tell := slices.Clone(f.changed)
	f.mu.Unlock()
	if len(differ) == 0 {
		return
	}
	f.log.InfoContext(ctx, "penalties of priority classes changed", "file", f.path, "classes", differ)
	for _, changed := range tell {
		changed(differ)
	}
}

// differences are the sorted names of the classes whose penalties are not the same in both.
func differences(before, now map[string]translate.Penalties) []string {
	names := map[string]bool{}
	for _, all := range []map[string]translate.Penalties{before, now} {
		for name := range all {
			if b, n := before[name], now[name]; !equal(b.Interruption, n.Interruption) || !equal(b.Reclamation, n.Reclamation) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func equal(a, b *resource.Quantity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(*b) == 0
}
