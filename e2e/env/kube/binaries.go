package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotBuilt means that a program or manifest of bin/tools is missing.
var ErrNotBuilt = errors.New("not built, run: make kube-components")

// tool returns the path of a file in bin/tools of the repository around the working
// directory, which is where `make kube-components` puts what it makes.
func tool(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "bin", "tools", name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", path, ErrNotBuilt)
	} else if err != nil {
		return "", err
	}
	return path, nil
}
