package image

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ErrNoImages means that there is nothing to write.
var ErrNoImages = errors.New("no images")

// Write writes the images of one program, by processor, into a directory that is made if
// need be. What an earlier run wrote there is replaced.
//
//	DIR/oci         an OCI image layout with one index of all images
//	DIR/ARCH.tar    one image, for docker load, ctr images import and kind load image-archive
//
// Who loads an archive finds its image under reference, such as
// registry.example/nstance-operator:v1.2.3; the tag names the index in the layout too.
func Write(dir, reference string, images map[string]v1.Image) error {
	if len(images) == 0 {
		return ErrNoImages
	}
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reference of the image: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := writeLayout(filepath.Join(dir, "oci"), tag, images); err != nil {
		return err
	}
	for arch, img := range images {
		if err := tarball.WriteToFile(filepath.Join(dir, arch+".tar"), tag, img); err != nil {
			return fmt.Errorf("write the archive for %s: %w", arch, err)
		}
	}
	return nil
}

// writeLayout writes an image layout whose only entry is the index of all images.
func writeLayout(dir string, tag name.Tag, images map[string]v1.Image) error {
	index := v1.ImageIndex(empty.Index)
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[arch],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write the image layout: %w", err)
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag.TagStr()})
	if err := path.AppendIndex(index, named); err != nil {
		return fmt.Errorf("write the image layout: %w", err)
	}
	return nil
}
