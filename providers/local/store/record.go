package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/renameio/v2"

	"nstance.dev/providers/local/process"
)

// ReadStart returns the recorded process; zero if none was recorded yet.
func ReadStart(dir string) (process.ID, error) {
	path := filepath.Join(dir, startFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return process.ID{}, nil
	}
	var p process.ID
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return process.ID{}, fmt.Errorf("read %s: %w", path, err)
	}
	return p, nil
}

// Record makes p the machine's process. The file of the pid is for others; what
// we trust is one file, so that it is written as a whole or not at all.
func Record(dir string, p process.ID) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, startFile), append(data, '\n'), 0o600); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, PIDFile), []byte(strconv.Itoa(p.PID)+"\n"), 0o600)
}

// Forget makes a stopped machine one that was never started. The marker of the
// halt goes last, so that a crash in between leaves it stopped.
func Forget(dir string) error {
	for _, name := range []string{PIDFile, BootedFile, process.ExitFile, startFile, StoppedFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
