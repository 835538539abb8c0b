package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"nstance.dev/server/objectstore"
)

// List implements objectstore.Store. The token is the last key of a page. Each
// page reads the files it names, for their etags.
func (s *Store) List(ctx context.Context, prefix, pageToken string, limit int) (objectstore.Page, error) {
	if err := objectstore.ValidatePrefix(prefix); err != nil {
		return objectstore.Page{}, err
	}
	if limit <= 0 || limit > objectstore.MaxPage {
		limit = objectstore.MaxPage
	}
	w := walk{store: s, prefix: prefix, after: pageToken, limit: limit}
	// The last slash of the prefix ends the folder below which all matches are.
	folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
	if err := w.folder(ctx, folder); err != nil && !errors.Is(err, errFull) {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, err)
	}
	return w.page, nil
}

// errFull ends a walk whose page is full.
var errFull = errors.New("page full")

type walk struct {
	store         *Store
	prefix, after string
	limit         int
	page          objectstore.Page
}

// folder visits the keys below a folder, given as "" or with a final slash, in
// byte order of the whole keys.
func (w *walk) folder(ctx context.Context, folder string) error {
	entries, err := os.ReadDir(w.store.path(folder))
	if gone(err) {
		return w.store.away()
	}
	if err != nil {
		return err
	}
	for _, name := range w.wanted(folder, entries) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.HasSuffix(name, "/") {
			err = w.folder(ctx, folder+name)
		} else {
			err = w.object(folder + name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the names in a folder that can hold or be a key of the page:
// folders get a final slash, so that "a.b" sorts before what is in "a".
func (w *walk) wanted(folder string, entries []fs.DirEntry) []string {
	var names []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		key := folder + name
		hidden := name[0] == '.'
		outside := !strings.HasPrefix(key, w.prefix) && !(e.IsDir() && strings.HasPrefix(w.prefix, key))
		before := key <= w.after && !(e.IsDir() && strings.HasPrefix(w.after, key))
		if !hidden && !outside && !before {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// object adds one object to the page; one deleted meanwhile is passed over.
func (w *walk) object(key string) error {
	if objectstore.ValidateKey(key) != nil {
		return nil //nolint:nilerr // put there by hand, and unreachable by any call
	}
	if len(w.page.Objects) == w.limit {
		w.page.Next = w.page.Objects[w.limit-1].Key
		return errFull
	}
	o, err := w.store.read(key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	w.page.Objects = append(w.page.Objects, objectstore.Info{
		Key: key, ETag: o.ETag, Size: int64(len(o.Data)), Modified: o.Modified,
	})
	return nil
}
