package image_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"nstance.dev/tools/image"
)

var spec = image.Spec{
	Name: "keeper", Version: "v1.2.3", Source: "https://example.com/keeper", Licenses: "Apache-2.0",
	Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)),
}

// program returns the beginning of a program, which is all that is looked at.
func program(t *testing.T, machine elf.Machine, parts ...elf.ProgType) []byte {
	t.Helper()
	var b bytes.Buffer
	size := binary.Size(elf.Header64{})
	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: uint16(size),
		Phoff: uint64(size), Phentsize: uint16(binary.Size(elf.Prog64{})), Phnum: uint16(len(parts)),
	}
	fields := []any{header}
	for _, part := range parts {
		fields = append(fields, elf.Prog64{Type: uint32(part)})
	}
	for _, field := range fields {
		if err := binary.Write(&b, binary.LittleEndian, field); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// keeper returns the images of a program for two processors.
func keeper(t *testing.T) map[string]v1.Image {
	t.Helper()
	images := map[string]v1.Image{}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		var err error
		if images[arch], err = image.New(spec, arch, program(t, machine, elf.PT_LOAD)); err != nil {
			t.Fatal(err)
		}
	}
	return images
}

func TestNew_whatARuntimeReads(t *testing.T) {
	img := keeper(t)["arm64"]
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	created := time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC)
	want := &v1.ConfigFile{
		OS: "linux", Architecture: "arm64", Created: v1.Time{Time: created},
		History: []v1.History{{Created: v1.Time{Time: created}, CreatedBy: "keeper v1.2.3"}},
		RootFS:  config.RootFS,
		Config: v1.Config{
			User: "65532:65532", Entrypoint: []string{"/keeper"}, WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title": "keeper", "org.opencontainers.image.version": "v1.2.3",
				"org.opencontainers.image.source": "https://example.com/keeper", "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestNew_holdsTheProgramAlone(t *testing.T) {
	layers, err := keeper(t)["amd64"].Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, error %v; want one layer", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	files := tar.NewReader(content)
	header, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "keeper" || header.Mode != 0o755 || header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(spec.Created.Truncate(time.Second)) {
		t.Errorf("header %+v", header)
	}
	if !bytes.Equal(got, program(t, elf.EM_X86_64, elf.PT_LOAD)) {
		t.Error("it is another program")
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want no other file", err)
	}
}

// TestNew_hasTheLicences: who gets an image gets the texts of the licences of what is in it.
func TestNew_hasTheLicences(t *testing.T) {
	given := spec
	given.Copyright = []byte("The terms.\n")
	img, err := image.New(given, "amd64", program(t, elf.EM_X86_64, elf.PT_LOAD))
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	files := tar.NewReader(content)
	for {
		header, err := files.Next()
		if err != nil {
			t.Fatal("no file with licences:", err)
		}
		if header.Name != "usr/share/doc/keeper/copyright" {
			continue
		}
		got, err := io.ReadAll(files)
		if err != nil || string(got) != "The terms.\n" || header.Mode != 0o644 {
			t.Errorf("%q with mode %o, error %v", got, header.Mode, err)
		}
		return
	}
}

func TestNew_holdsOthersBesideIt(t *testing.T) {
	other := program(t, elf.EM_X86_64, elf.PT_LOAD, elf.PT_LOAD)
	img, err := image.New(spec, "amd64", program(t, elf.EM_X86_64, elf.PT_LOAD), image.Program{Name: "other", File: other})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, error %v; want one layer", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var names []string
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if got, err := io.ReadAll(files); err != nil || header.Name == "other" && !bytes.Equal(got, other) {
			t.Errorf("%s is another program, error %v", header.Name, err)
		}
	}
	if diff := cmp.Diff([]string{"keeper", "other"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := image.New(spec, "amd64", other, image.Program{Name: "script", File: []byte("#!/bin/sh")}); !errors.Is(err, image.ErrProgram) {
		t.Errorf("error %v, want ErrProgram", err)
	}
}

func TestNew_refusesWhatWouldNotRun(t *testing.T) {
	tests := []struct {
		name    string
		spec    image.Spec
		arch    string
		program []byte
		want    error
	}{
		{"a script", spec, "amd64", []byte("#!/bin/sh\n"), image.ErrProgram},
		{"a program of another processor", spec, "amd64", program(t, elf.EM_AARCH64), image.ErrProgram},
		{"a program that needs libraries", spec, "amd64", program(t, elf.EM_X86_64, elf.PT_LOAD, elf.PT_INTERP), image.ErrProgram},
		{"a processor that nobody has", spec, "z80", program(t, elf.EM_X86_64), image.ErrProgram},
		{"a program without a name", image.Spec{}, "amd64", program(t, elf.EM_X86_64), image.ErrNoName},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := image.New(test.spec, test.arch, test.program); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

const reference = "registry.example/tools/keeper:v1.2.3"

func TestWrite_layoutAndArchives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	images := keeper(t)
	if err := image.Write(dir, reference, images); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "oci"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Fatalf("entries %+v, want one that is called v1.2.3", top.Manifests)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	all, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, one := range all.Manifests {
		platforms = append(platforms, one.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}

	tag := name.MustParseReference(reference).(name.Tag)
	for arch, img := range images {
		loaded, err := tarball.ImageFromPath(filepath.Join(dir, arch+".tar"), &tag)
		if err != nil {
			t.Fatal(err)
		}
		want, errWant := img.ConfigName()
		got, errGot := loaded.ConfigName()
		if err := errors.Join(errWant, errGot, validate.Image(loaded)); err != nil || got != want {
			t.Errorf("%s: configuration %v, want %v; error %v", arch, got, want, err)
		}
	}
}

func TestWrite_isReproducible(t *testing.T) {
	read := func() map[string]string {
		dir := t.TempDir()
		for range 2 { // what is there is replaced
			if err := image.Write(dir, reference, keeper(t)); err != nil {
				t.Fatal(err)
			}
		}
		files := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			files[path[len(dir):]] = string(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	if diff := cmp.Diff(read(), read()); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
}

func TestWrite_refuses(t *testing.T) {
	if err := image.Write(t.TempDir(), reference, nil); !errors.Is(err, image.ErrNoImages) {
		t.Errorf("error %v, want that there are no images", err)
	}
	for _, bad := range []string{"", "keeper", "Registry/keeper:v1", "registry.example/keeper:no spaces"} {
		if err := image.Write(t.TempDir(), bad, keeper(t)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
