package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// Archive returns an archive of files below a folder of that name.
func Archive(name string, files []File, created time.Time) ([]byte, error) {
	files, err := resolve(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zip)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(name, f.To), Size: int64(len(f.Data)), Mode: f.Mode,
			ModTime: created.UTC().Truncate(time.Second), Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Tree are all files below a folder, by their paths in it, none executable.
func Tree(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		files = append(files, File{Data: data, To: filepath.ToSlash(rel), Mode: 0o644})
		return err
	})
	return files, err
}
