package proxmoxfake

import (
	"bytes"
	"io/fs"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// seedLabel is the label of a CD that cloud-init takes its data from, by the
// documentation of its NoCloud data source. Capitals do as well.
const seedLabel = "cidata"

// readSeed returns the files of an ISO image with the seed label. What is none is
// not ok.
func readSeed(image []byte) (files map[string][]byte, ok bool) {
	if len(image) == 0 {
		return nil, false
	}
	cd, err := iso9660.Read(file.New(newImageFile(image), true), 0, 0, 0)
	if err != nil || !strings.EqualFold(strings.Trim(cd.Label(), " \x00"), seedLabel) {
		return nil, false
	}
	files = map[string][]byte{}
	for _, name := range []string{"user-data", "meta-data", "network-config", "vendor-data"} {
		if data, err := cd.ReadFile(name); err == nil {
			files[name] = data
		}
	}
	return files, true
}

// imageFile is an image in memory as a file.
type imageFile struct {
	*bytes.Reader
	size int64
}

func newImageFile(image []byte) imageFile {
	return imageFile{bytes.NewReader(image), int64(len(image))}
}

// Close implements [fs.File].
func (imageFile) Close() error { return nil }

// Stat implements [fs.File].
func (f imageFile) Stat() (fs.FileInfo, error) { return f.info(), nil }

func (f imageFile) info() fs.FileInfo { return imageInfo{f.size} }

type imageInfo struct{ size int64 }

func (imageInfo) Name() string       { return "image" }
func (i imageInfo) Size() int64      { return i.size }
func (imageInfo) Mode() fs.FileMode  { return 0o400 }
func (imageInfo) ModTime() time.Time { return time.Time{} }
func (imageInfo) IsDir() bool        { return false }
func (imageInfo) Sys() any           { return nil }
