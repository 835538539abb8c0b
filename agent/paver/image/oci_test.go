package image_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/treetest"
)

func TestAnImageBecomesARoot(t *testing.T) {
	s := newServer(t)
	img := imageOf(t, "amd64",
		layer(t, append(bootable(), treetest.File("etc/a", "1"), treetest.File("etc/b", "1"), treetest.Dir("opt"), treetest.File("opt/c", "1"))...),
		static.NewLayer(zstandard(t, treetest.Archive(t, treetest.File("etc/.wh.a", ""), treetest.File("etc/b", "2"))), types.OCILayerZStd),
		static.NewLayer(treetest.Archive(t, treetest.File("opt/.wh..wh..opq", ""), treetest.File("opt/d", "3")), types.OCIUncompressedLayer),
	)
	s.push(t, "team/node:1", img)
	h := newHost(t, image.Options{Roots: s.roots})
	const want = "etc/b=2 opt/d=3"
	if got, err := h.ensure(t, oci(s, "team/node:1")); err != nil || got != want {
		t.Fatalf("got %q, %v", got, err)
	}
	d := digestOf(t, img)
	got, err := h.Ensure(t.Context(), oci(s, "team/node:1"), nil)
	if err != nil || got.Digest.String() != d || got.Root.Notes["digest"] != d {
		t.Fatalf("got %+v, %v", got, err)
	}
	got.Root.Close()

	// With its digest it needs no registry any longer, also after a restart.
	s.Close()
	h.restart(t)
	if got, err := h.ensure(t, oci(s, "team/node:1", pinned(d))); err != nil || got != want {
		t.Errorf("without the registry: %q, %v", got, err)
	}
	if _, err := h.ensure(t, oci(s, "other:1@"+d)); err != nil {
		t.Errorf("under another name: %v", err)
	}
}

func TestTheImageOfTheArchitectureIsTaken(t *testing.T) {
	s := newServer(t)
	index := func(add ...mutate.IndexAddendum) v1.ImageIndex {
		return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), add...)
	}
	of := func(img v1.Image, os, arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}}}
	}
	arm := imageOf(t, "arm64", layer(t, append(bootable(), treetest.File("a", "arm64"))...))
	amd := imageOf(t, "amd64", layer(t, append(bootable(), treetest.File("a", "amd64"))...))
	s.push(t, "node:both", index(of(simple(t), "unknown", "unknown"), of(simple(t), "windows", "amd64"), of(arm, "linux", "arm64"), of(amd, "linux", "amd64")))
	s.push(t, "node:arm", index(of(arm, "linux", "arm64")))
	s.push(t, "node:liar", index(of(arm, "linux", "amd64")))
	s.push(t, "node:one", arm)
	for arch, want := range map[string]string{"amd64": "a=amd64", "arm64": "a=arm64"} {
		h := newHost(t, image.Options{Roots: s.roots, Arch: arch})
		if got, err := h.ensure(t, oci(s, "node:both")); err != nil || got != want {
			t.Errorf("%s: %q, %v", arch, got, err)
		}
	}
	h := newHost(t, image.Options{Roots: s.roots})
	for _, tag := range []string{"node:arm", "node:liar", "node:one"} {
		if _, err := h.ensure(t, oci(s, tag)); !errors.Is(err, image.ErrRefused) || !strings.Contains(err.Error(), "not for") {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

// What the registry has under a digest is somebody's, and may be anything.
func TestM57_HostileImagesChangeNothing(t *testing.T) {
	s := newServer(t)
	zeros := treetest.File("zeros", "")
	zeros.Content = string(make([]byte, 600<<20))
	bomb := zstandard(t, treetest.Archive(t, append(bootable(), zeros)...))
	many := make([]v1.Layer, 513)
	for i := range many {
		many[i] = static.NewLayer([]byte{byte(i), byte(i >> 8)}, types.OCILayer)
	}
	cases := map[string]struct {
		img  v1.Image
		says string
	}{
		"a name that leads up":     {simple(t, treetest.File("../../../../outside/file", "evil")), `contains ".."`},
		"a link that leads up":     {simple(t, treetest.Symlink("l", "../../../../outside"), treetest.File("l/file", "evil")), "leads nowhere"},
		"a hard link that escapes": {simple(t, treetest.Link("l", "../../../../outside/file"), treetest.File("l", "evil")), `contains ".."`},
		"a disk":                   {simple(t, treetest.Device("mem", 1, 1)), "device node 1:1"},
		"a bomb":                   {imageOf(t, "amd64", static.NewLayer(bomb, types.OCILayerZStd)), "decompress to more than"},
		"no archive":               {imageOf(t, "amd64", static.NewLayer([]byte(strings.Repeat("x", 2000)), types.OCILayer)), "read archive"},
		"no layer":                 {imageOf(t, "amd64", static.NewLayer([]byte("{}"), "application/json")), "is not a layer"},
		"a layer from elsewhere":   {imageOf(t, "amd64", static.NewLayer([]byte("{}"), types.DockerForeignLayer)), "is not a layer"},
		"no layers":                {imageOf(t, "amd64"), "has 0 layers"},
		"too many layers":          {imageOf(t, "amd64", many...), "has 513 layers"},
		"no init":                  {imageOf(t, "amd64", layer(t, treetest.File("usr/lib/os-release", "x"))), "has no init"},
		"an init outside":          {imageOf(t, "amd64", layer(t, treetest.File("etc/os-release", "x"), treetest.Symlink("sbin/init", "../../../../../../outside/file"))), "has no init"},
		"no release":               {imageOf(t, "amd64", layer(t, treetest.File("sbin/init", "x"))), "os-release"},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			s.push(t, "node:hostile", c.img)
			h := newHost(t, image.Options{Roots: s.roots})
			_, err := h.ensure(t, oci(s, "node:hostile"))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if isRead := strings.Contains(c.says, "read archive"); !isRead && !errors.Is(err, image.ErrRefused) {
				t.Errorf("it is not said to be the image's fault: %v", err)
			}
			if roots, _ := filepath.Glob(filepath.Join(h.dir, "roots/*")); len(roots) != 0 {
				t.Errorf("left are %q", roots)
			}
		})
	}
}

// A registry that sends something else under a digest is found out, whatever it is about.
func TestM57_EveryDigestIsVerified(t *testing.T) {
	s := newServer(t)
	img := simple(t)
	s.push(t, "node:1", img)
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{
		"manifest": "/manifests/" + digestOf(t, img), "configuration": "/blobs/" + m.Config.Digest.String(), "layer": "/blobs/" + m.Layers[0].Digest.String(),
	} {
		for how, answer := range map[string]func(http.ResponseWriter){
			"other":  func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"schemaVersion": 2}`)) },
			"longer": func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 5<<20)) },
			"none":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		} {
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, path) {
					answer(w)
					return true
				}
				return false
			})
			h := newHost(t, image.Options{Roots: s.roots})
			_, err := h.ensure(t, oci(s, "node:1", pinned(digestOf(t, img))))
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s, %s: %v", what, how, err)
			}
			if how == "longer" && !errors.Is(err, digest.ErrMismatch) {
				t.Errorf("%s, %s: %v", what, how, err)
			}
		}
	}
}

func TestABlobThatWentBadIsFetchedAgain(t *testing.T) {
	s := newServer(t)
	first, second := layer(t, bootable()...), layer(t, treetest.File("a", "1"))
	s.push(t, "node:1", imageOf(t, "amd64", first, second))
	h := newHost(t, image.Options{Roots: s.roots})
	img := imageOf(t, "amd64", first, second, layer(t, treetest.File("b", "2")))
	s.push(t, "node:2", img)
	if _, err := h.ensure(t, oci(s, "node:1")); err != nil {
		t.Fatal(err)
	}
	d, err := second.Digest()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.dir, "blobs", d.Hex)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ensure(t, oci(s, "node:2")); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("got %v", err)
	}
	if got, err := h.ensure(t, oci(s, "node:2")); err != nil || got != "a=1 b=2" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestLayersThatAreThereAreNotFetchedAgain(t *testing.T) {
	s := newServer(t)
	base := layer(t, bootable()...)
	s.push(t, "node:1", imageOf(t, "amd64", base, layer(t, treetest.File("a", "1"))))
	s.push(t, "node:2", imageOf(t, "amd64", base, layer(t, treetest.File("a", "2"))))
	h := newHost(t, image.Options{Roots: s.roots})
	if _, err := h.ensure(t, oci(s, "node:1")); err != nil {
		t.Fatal(err)
	}
	s.answer(nil)
	if got, err := h.ensure(t, oci(s, "node:2")); err != nil || got != "a=2" {
		t.Errorf("got %q, %v", got, err)
	}
	d := digestOf(t, base)
	for _, r := range s.asked() {
		if strings.Contains(r, d) {
			t.Errorf("%s: the layer was there", r)
		}
	}
}

func TestAPullEndsWithItsContext(t *testing.T) {
	s := newServer(t)
	s.push(t, "node:1", simple(t))
	h := newHost(t, image.Options{Roots: s.roots})
	_, err := h.Ensure(ending(t, s), oci(s, "node:1"), nil)
	h.check(t, err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.answer(nil)
	if _, err := h.ensure(t, oci(s, "node:1")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestProgressIsTold(t *testing.T) {
	s := newServer(t)
	img := imageOf(t, "amd64", layer(t, bootable()...), layer(t, treetest.File("a", "1")))
	s.push(t, "node:1", img)
	h := newHost(t, image.Options{Roots: s.roots})
	told := map[string]int64{}
	got, err := h.Ensure(t.Context(), oci(s, "node:1"), func(what string, done, whole int64) {
		if done > whole {
			t.Errorf("%s: %d of %d", what, done, whole)
		}
		told[what] = done
	})
	if err != nil {
		t.Fatal(err)
	}
	got.Root.Close()
	for _, what := range []string{"manifest", "configuration", "layer 1 of 2", "layer 2 of 2"} {
		if told[what] == 0 {
			t.Errorf("nothing is told of %s: %v", what, told)
		}
	}
}

func TestAFullDiskIsSaid(t *testing.T) {
	s := newServer(t)
	s.push(t, "node:1", simple(t))
	h := newHost(t, image.Options{Roots: s.roots})
	b := image.New(h.cache, image.Options{Roots: s.roots, Arch: "amd64", Limits: extract.Limits{MinFree: 1 << 60}, Log: slog.New(slog.DiscardHandler)})
	if _, err := b.Ensure(t.Context(), oci(s, "node:1"), nil); !errors.Is(err, extract.ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	h.check(t, nil)
}
