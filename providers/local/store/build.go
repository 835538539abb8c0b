package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"nstance.dev/server/driver"
)

// Build makes the directory of a new machine. It appears complete or not at
// all, and exclusively: that it did not exist before is what makes a create
// happen once. The caller holds the lock.
func (s *Store) Build(req driver.CreateRequest) error {
	temp := s.Hidden(NewDir, req.InstanceID)
	if err := os.RemoveAll(temp); err != nil { // a create that a crash interrupted
		return err
	}
	for _, sub := range []string{"identity", "keys", "recv"} {
		if err := os.MkdirAll(filepath.Join(temp, sub), 0o700); err != nil {
			return err
		}
	}
	meta, err := json.MarshalIndent(MetadataOf(req), "", "  ")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{MetadataFile: append(meta, '\n'), UserDataFile: req.UserData} {
		if err := writeSynced(filepath.Join(temp, name), data); err != nil {
			return err
		}
	}
	err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, s.Dir(req.InstanceID), unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: temp, New: s.Dir(req.InstanceID), Err: err}
	}
	return nil
}

// writeSynced writes a file that nobody sees yet and that must survive a loss
// of power once its directory was renamed.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
