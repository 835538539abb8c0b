package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is as whom programs run in their images, and its group. It is a number, by which
// Kubernetes sees that it is not root.
const User = "65532:65532"

// Spec is what images say about their program. Name is required.
type Spec struct {
	// Name is that of the program: it lies at /Name, and is what a container runs.
	Name string

	// Version, Source and Licenses become the labels and annotations of that name of
	// the OCI image specification; an empty one is left out.
	Version, Source, Licenses string

	// Copyright is the text of the licences of all that is in the image. It lies at
	// /usr/share/doc/Name/copyright, as in a package of Debian; without one there is no such file.
	Copyright []byte

	// Created is the time that everything in the image has, in whole seconds; the zero
	// value is the beginning of 1970.
	Created time.Time
}

// ErrNoName means that a [Spec] has no name of a program.
var ErrNoName = errors.New("the program has no name")

// Program is a static program and its name.
type Program struct {
	Name string
	File []byte
}

// New returns the image of a program for Linux on a processor that Go calls arch, and of others that
// lie beside it and are run by their names. Errors match [ErrNoName] and [ErrProgram].
func New(spec Spec, arch string, program []byte, beside ...Program) (v1.Image, error) {
	all := append([]Program{{spec.Name, program}}, beside...)
	for _, p := range all {
		if p.Name == "" {
			return nil, ErrNoName
		}
		if err := check(p.File, arch); err != nil {
			return nil, fmt.Errorf("%s for %s: %w", p.Name, arch, err)
		}
	}
	layer, err := spec.layer(all)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: spec.created()}, CreatedBy: strings.TrimSpace(spec.Name + " " + spec.Version)},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: spec.created()}
	config.Config = v1.Config{
		User: User, Entrypoint: []string{"/" + spec.Name}, WorkingDir: "/", Labels: spec.annotations(),
	}
	return mutate.ConfigFile(img, config)
}

// created is when everything in the image was made, as archives can say it.
func (s Spec) created() time.Time {
	if s.Created.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return s.Created.UTC().Truncate(time.Second)
}

// annotations are the names that the OCI image specification defines, with their values.
func (s Spec) annotations() map[string]string {
	all := map[string]string{"title": s.Name, "version": s.Version, "source": s.Source, "licenses": s.Licenses}
	out := map[string]string{}
	for name, value := range all {
		if value != "" {
			out["org.opencontainers.image."+name] = value
		}
	}
	return out
}

// layer returns the file system of the image: the programs, and their licences.
func (s Spec) layer(programs []Program) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	write := func(name string, mode int64, content []byte) error {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)),
			ModTime: s.created(), Format: tar.FormatUSTAR,
		})
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}
	for _, p := range programs {
		if err := write(p.Name, 0o755, p.File); err != nil {
			return nil, err
		}
	}
	if len(s.Copyright) > 0 {
		if err := write("usr/share/doc/"+s.Name+"/copyright", 0o644, s.Copyright); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
