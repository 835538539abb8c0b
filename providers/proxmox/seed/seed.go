// Package seed makes the CD that cloud-init takes a machine's user data, names and network
// configuration from, in the form of its NoCloud data source.
package seed

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"nstance.dev/protos/identity"
)

// seedLabel is by what cloud-init's NoCloud data source knows its CD.
const seedLabel = "cidata"

// FileName is the file name of a machine's CD.
func FileName(id identity.ID) string { return string(id) + ".iso" }

// Volume is its volume id.
func Volume(storage string, id identity.ID) string { return storage + ":iso/" + FileName(id) }

// Image makes the CD that cloud-init takes user data and names from, and the network
// configuration if there is one. The library
// works on files; nobody else can read them, and they are gone afterwards.
func Image(id identity.ID, userData []byte, network string) (image []byte, err error) {
	dir, err := os.MkdirTemp("", "nstance-seed-")
	if err != nil {
		return nil, fmt.Errorf("make the machine's CD: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "cd")
	if err := writeSeed(path, filepath.Join(dir, "files"), id, userData, network); err != nil {
		return nil, fmt.Errorf("make the machine's CD: %w", err)
	}
	return os.ReadFile(path)
}

func writeSeed(path, files string, id identity.ID, userData []byte, network string) error {
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	cd, err := iso9660.Create(file.New(f, false), 0, 0, 0, files)
	if err != nil {
		return err
	}
	metaData := fmt.Sprintf("instance-id: %s\nlocal-hostname: %s\n", id, id)
	contents := map[string][]byte{"user-data": userData, "meta-data": []byte(metaData)}
	if network != "" {
		contents["network-config"] = []byte(network)
	}
	for name, data := range contents {
		if err := os.WriteFile(filepath.Join(cd.Workspace(), name), data, 0o600); err != nil {
			return err
		}
	}
	// Plain ISO 9660 has no names in lower case, or with a dash; readers take these
	// from either extension.
	return cd.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: seedLabel})
}
