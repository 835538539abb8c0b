package image_test

import (
	"net/http"
	"strings"
	"testing"

	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/treetest"
)

// TestSizeOfAnImage: the layers as the manifest says while they come, the root once it is unpacked, and nothing of
// what was never asked for.
func TestSizeOfAnImage(t *testing.T) {
	s := newServer(t)
	big := strings.Repeat("0123456789", 100_000)
	img := simple(t, treetest.File("big", big))
	s.push(t, "team/node:1", img)
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	src := oci(s, "team/node:1", pinned(digestOf(t, img)))
	h := newHost(t, image.Options{Roots: s.roots})
	size := func(when string, src image.Source, atLeast int64, unpacked bool) {
		t.Helper()
		got, err := h.Size(src)
		if err != nil || got.Unpacked != unpacked || got.Bytes < atLeast || atLeast == 0 && got.Bytes != 0 || !unpacked && got.Bytes > atLeast {
			t.Errorf("%s: %+v, %v; want %d, unpacked %t", when, got, err, atLeast, unpacked)
		}
	}
	s.answer(nil)
	size("before", src, 0, false)
	size("a tag", oci(s, "team/node:1"), 0, false)
	if got := s.asked(); len(got) > 0 {
		t.Errorf("the registry was asked %q", got)
	}
	s.answer(func(w http.ResponseWriter, r *http.Request) bool { // the manifest comes, the layer does not
		if strings.HasSuffix(r.URL.Path, manifest.Layers[0].Digest.String()) {
			http.Error(w, "", http.StatusNotFound)
			return true
		}
		return false
	})
	if _, err := h.ensure(t, src); err == nil {
		t.Fatal("it was fetched without its layer")
	}
	size("with its manifest", src, manifest.Layers[0].Size, false)
	s.answer(nil)
	if _, err := h.ensure(t, src); err != nil {
		t.Fatal(err)
	}
	size("unpacked", src, int64(len(big)), true)
	h.restart(t)
	size("in another process", src, int64(len(big)), true)

	data := treetest.Archive(t, append(bootable(), treetest.File("big", big))...)
	s.serving("/root.tar", data)
	archive := image.Source{Archive: &image.Archive{URL: s.URL + "/root.tar", SHA256: digest.Of(data).String()}}
	size("an archive", archive, 0, false)
	blob, err := h.Fetch(t.Context(), image.File{URL: s.URL + "/root.tar", Digest: digest.Of(data)}, "archive", nil)
	if err != nil {
		t.Fatal(err)
	}
	blob.Close()
	size("an archive that was fetched", archive, int64(len(data)), false)
	if _, err := h.ensure(t, archive); err != nil {
		t.Fatal(err)
	}
	size("an archive that was unpacked", archive, int64(len(big)), true)
	size("what debootstrap never made", image.Source{Debootstrap: &image.Debootstrap{Suite: "bookworm"}}, 0, false)
}
