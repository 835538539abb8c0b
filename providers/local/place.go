package local

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

// CheckSubnet returns how many machines still fit where the option room names
// the subnet; any other is unlimited.
func (d *Driver) CheckSubnet(ctx context.Context, subnet string) (int, error) {
	room, limited := d.opts.Room[subnet]
	if !limited {
		if err := ctx.Err(); err != nil {
			return 0, driver.Fail(driver.Transient, "check-subnet", err)
		}
		return -1, nil
	}
	taken := 0
	err := d.every(ctx, func(_ string, meta metadata) error {
		if meta.SubnetID == subnet {
			taken++
		}
		return nil
	})
	if err != nil {
		return 0, driver.Fail(driver.Transient, "check-subnet", err)
	}
	return max(room-taken, 0), nil
}

// settle lays out a machine where there is room for it.
func (d *Driver) settle(ctx context.Context, req driver.CreateRequest) error {
	if _, limited := d.opts.Room[req.SubnetID]; limited {
		d.placing.Lock()
		defer d.placing.Unlock()
		switch free, err := d.CheckSubnet(ctx, req.SubnetID); {
		case err != nil:
			return err
		case free == 0:
			return driver.Fail(driver.Capacity, "create", fmt.Errorf("subnet %q has no room", req.SubnetID))
		}
	}
	if err := d.build(req); err != nil {
		return driver.Fail(driver.Transient, "create", err)
	}
	return nil
}

// ResolveImage looks among the files of {dir}/images. The one filter is "name", with * and ?
// in the values; nobody owns files here. The id of an image is its path.
func (d *Driver) ResolveImage(ctx context.Context, query driver.ImageQuery) (string, error) {
	const op = "resolve-image"
	if err := ctx.Err(); err != nil {
		return "", driver.Fail(driver.Transient, op, err)
	}
	if err := checkQuery(query); err != nil {
		return "", driver.Fail(driver.Invalid, op, err)
	}
	dir := filepath.Join(d.opts.Dir, imagesDir)
	entries, err := os.ReadDir(dir)
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
		return "", driver.Fail(driver.MissingRef, op, fmt.Errorf("no file in %s matches", dir))
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
	return filepath.Join(dir, found[0].Name()), nil
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

// SelfID returns the name of this box.
func (d *Driver) SelfID(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", driver.Fail(driver.Transient, "self-id", err)
	}
	name, err := os.Hostname()
	if err != nil {
		return "", driver.Fail(driver.Transient, "self-id", err)
	}
	return name, nil
}
