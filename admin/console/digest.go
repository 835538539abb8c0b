package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// DigestFile holds, among the built files, the digest of what they were built from.
const DigestFile = "dist/sources.sha256"

// Digest returns the digest of the sources of the pages, in the directory web: SHA-256 over
// the path, the length and the bytes of each file but the built ones, those of npm,
// dot-files and Go's, in the order of their paths. The build of the pages computes the same.
func Digest(web fs.FS) (string, error) {
	var paths []string
	err := fs.WalkDir(web, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(base, "."), name == "dist", name == "node_modules":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir(), strings.HasSuffix(base, ".go"):
			return nil
		}
		paths = append(paths, name)
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(paths)
	sum := sha256.New()
	for _, name := range paths {
		data, err := fs.ReadFile(web, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s\x00%d\x00", name, len(data)) // a hash takes everything
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// CheckDigest says whether the pages in the directory web were built from its sources.
func CheckDigest(web fs.FS) error {
	want, err := Digest(web)
	if err != nil {
		return err
	}
	got, err := fs.ReadFile(web, DigestFile)
	if err != nil {
		return fmt.Errorf("the pages are not built: %w; run make console", err)
	}
	if strings.TrimSpace(string(got)) != want {
		return fmt.Errorf("the built pages are of other sources (%.12s, and these are %.12s): run make console and commit dist/", got, want)
	}
	return nil
}
