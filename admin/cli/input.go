package cli

import (
	"fmt"
	"io"
	"os"
)

// stdinName is how messages call the input of a command.
const stdinName = "standard input"

// readInput reads a file, or the input of the command for "-".
func readInput(env *Env, path string, limit int64) ([]byte, error) {
	if path == "-" {
		return readAll(env.In, stdinName, limit)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, path, limit)
}

func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1)) // errors of files name them
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: longer than %d bytes", name, limit)
	}
	return data, nil
}
