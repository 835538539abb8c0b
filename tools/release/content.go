package release

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// resolve reads what files name: units get their paths, folders become their files, and
// manual pages are packed, as package managers want them. The order is that of names.
func resolve(files []File) ([]File, error) {
	var all []File
	for _, f := range files {
		some, err := content(f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.To, b.To) })
	return all, nil
}

func content(f File) ([]File, error) {
	if f.From == "" {
		return []File{f}, nil
	}
	name, edit, edited := strings.Cut(f.From, "\x00")
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return folder(name, f)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("content of %s: %w", f.To, err)
	}
	if edited {
		from, to, _ := strings.Cut(edit, "\x00")
		if !bytes.Contains(data, []byte(from)) {
			return nil, fmt.Errorf("%s does not mention %s, which a package has elsewhere", name, from)
		}
		data = bytes.ReplaceAll(data, []byte(from), []byte(to))
	}
	f.From, f.Data = "", data
	return []File{f}, nil
}

func folder(name string, f File) ([]File, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var all []File
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(name, e.Name()))
		if err != nil {
			return nil, err
		}
		packed, err := pack(data)
		if err != nil {
			return nil, err
		}
		all = append(all, File{Data: packed, To: path.Join(f.To, e.Name()+".gz"), Mode: f.Mode})
	}
	return all, nil
}

func pack(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
