package cli

import (
	"fmt"
	"io"
	"os"
)

// readInput reads a file, or the input of the command for "-".
func readInput(env *Env, path string, limit int64) ([]byte, error) {
	if path == "-" {
		return readAll(env.In, "standard input", limit)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, path, limit)
}

func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: longer than %d bytes", name, limit)
	}
	return data, nil
}
