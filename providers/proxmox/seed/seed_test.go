package seed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"nstance.dev/protos/identity"
)

const testID identity.ID = "knc068a3cp3thz5z2mv1gejwftabc"

func TestSeedImage(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	userData := "#!/bin/sh\necho a nonce\n"
	image, err := Image(testID, []byte(userData), "version: 2\n")
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("S14: user data is left in %v", left)
	}
	path := filepath.Join(t.TempDir(), "cd.iso")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	disk, err := file.OpenFromPath(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	cd, err := iso9660.Read(disk, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if label := strings.TrimRight(cd.Label(), "\x00"); label != "cidata" {
		t.Errorf("label %q", label)
	}
	for name, want := range map[string]string{
		"user-data": userData, "meta-data": "instance-id: " + string(testID) + "\nlocal-hostname: " + string(testID) + "\n",
	} {
		if got, err := cd.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}
