// Package images finds images: files of a directory.
package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nstance.dev/server/driver"
)

// Images are the files of one directory. Make it with [New].
type Images struct{ dir string }

// New returns the images in a directory, which need not exist.
func New(dir string) *Images { return &Images{dir} }

// ResolveImage looks among the files of the directory. The one filter is "name", with * and ?
// in the values; nobody owns files here. The id of an image is its path.
func (i *Images) ResolveImage(ctx context.Context, query driver.ImageQuery) (string, error) {
	const op = "resolve-image"
	if err := ctx.Err(); err != nil {
		return "", driver.Fail(driver.Transient, op, err)
	}
	if err := checkQuery(query); err != nil {
		return "", driver.Fail(driver.Invalid, op, err)
	}
	entries, err := os.ReadDir(i.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", driver.Fail(driver.Transient, op, err)
	}
	var found []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && matches(query.Filters, e.Name()) {
			found = append(found, info)
		}
	}
	if len(found) == 0 {
		return "", driver.Fail(driver.MissingRef, op, fmt.Errorf("no file in %s matches", i.dir))
	}
	slices.SortStableFunc(found, func(a, b fs.FileInfo) int { // they come by name
		if query.ByName {
			return strings.Compare(a.Name(), b.Name())
		}
		return a.ModTime().Compare(b.ModTime())
	})
	if query.Descending {
		slices.Reverse(found)
	}
	return filepath.Join(i.dir, found[0].Name()), nil
}

func checkQuery(query driver.ImageQuery) error {
	if len(query.Owners) > 0 {
		return errors.New("owners are given; images of the local provider have none")
	}
	for _, f := range query.Filters {
		if f.Name != "name" {
			return fmt.Errorf("filter %q is unknown; the local provider has \"name\"", f.Name)
		}
		for _, v := range f.Values {
			if _, err := filepath.Match(v, ""); err != nil {
				return fmt.Errorf("filter name: %q: %w", v, err)
			}
		}
	}
	return nil
}

func matches(filters []driver.ImageFilter, name string) bool {
	for _, f := range filters {
		if !slices.ContainsFunc(f.Values, func(v string) bool { ok, _ := filepath.Match(v, name); return ok }) {
			return false
		}
	}
	return true
}
