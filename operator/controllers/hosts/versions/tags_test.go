package versions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/images"
)

// digestOf is a digest of one digit.
func digestOf(digit string) hostsv1.SHA256 {
	return hostsv1.SHA256("sha256:" + strings.Repeat(digit, 64))
}

// resolving makes a world whose tags are resolved, one digit after the other, and counts how often.
func (w *world) resolving() (asked *[]string) {
	asked = new([]string)
	w.digest = func(t *hostsv1.Template) (hostsv1.SHA256, error) {
		*asked = append(*asked, t.Image.OCI.Reference)
		return digestOf(fmt.Sprint(len(*asked))), nil
	}
	w.restart()
	return asked
}

func (w *world) editImage(image hostsv1.OCIImage) {
	w.t.Helper()
	w.edit(func(s *hostsv1.MachineConfigurationSpec) { s.Template.Image.OCI = &image })
}

// M22: a tag is resolved once, and its digest written with the lock: the version means the same bytes for ever.
func TestM22_ATagIsResolvedOnce(t *testing.T) {
	run(t, func(w *world) {
		asked := w.resolving()
		w.make("v1.36.0")
		w.reconcile()
		if v := w.version("gpu-v1"); v.Status.Resolved != nil || len(*asked) > 0 {
			t.Errorf("resolved before it was locked: %+v, asked %v", v.Status.Resolved, *asked)
		}
		w.writes = nil
		got := w.lock(1)
		if got.Resolved == nil || got.Resolved.ImageDigest != digestOf("1") || len(w.writes) != 1 {
			t.Errorf("locked %+v, writes %v", got.Resolved, w.writes)
		}
		w.restart()
		w.reconcile()
		if again := w.lock(1); *again.Resolved != *got.Resolved || *w.version("gpu-v1").Status.Resolved != *got.Resolved || len(*asked) != 1 {
			t.Errorf("locked again: %+v, asked %v", again.Resolved, *asked)
		}
		w.editKubelet("v1.36.1")
		w.reconcile()
		if next := w.lock(2); next.Resolved.ImageDigest != digestOf("2") {
			t.Errorf("the next version has %+v", next.Resolved)
		}
	})
}

// M22: what names its content already is not asked for.
func TestM22_ADigestIsNotResolved(t *testing.T) {
	run(t, func(w *world) {
		asked := w.resolving()
		w.make("v1.36.0")
		w.reconcile()
		for i, image := range []hostsv1.OCIImage{{Reference: "node:1", Digest: digestOf("a")}, {Reference: "node:1@" + string(digestOf("b"))}} {
			w.editImage(image)
			w.reconcile()
			if got := w.lock(int32(i + 1)); got.Resolved != nil || len(*asked) > 0 {
				t.Errorf("%+v: resolved to %+v, asked %v", image, got.Resolved, *asked)
			}
		}
		w.edit(func(s *hostsv1.MachineConfigurationSpec) {
			s.Template.Image = hostsv1.Image{Type: hostsv1.ImageArchive, Archive: &hostsv1.ArchiveImage{URL: "https://example.com/a.tar", SHA256: digestOf("c")}}
		})
		w.reconcile()
		if got := w.lock(3); got.Resolved != nil || len(*asked) > 0 {
			t.Errorf("an archive: resolved to %+v, asked %v", got.Resolved, *asked)
		}
	})
}

// M22: an edit between the question and the lock has its own tag resolved; other work on the configuration does
// not wait for the registry.
func TestM22_EditWhileTheRegistryIsAsked(t *testing.T) {
	run(t, func(w *world) {
		asked := w.resolving()
		answer := w.digest
		w.digest = func(of *hostsv1.Template) (hostsv1.SHA256, error) {
			if len(*asked) == 0 {
				w.editImage(hostsv1.OCIImage{Reference: "node:2"})
				w.reconcile() // which the question does not keep waiting
			}
			return answer(of)
		}
		w.make("v1.36.0")
		w.reconcile()
		got := w.lock(1)
		if got.Template.Image.OCI.Reference != "node:2" || got.Resolved.ImageDigest != digestOf("2") || fmt.Sprint(*asked) != "[node:1 node:2]" {
			t.Errorf("locked %s as %+v, asked %v", got.Template.Image.OCI.Reference, got.Resolved, *asked)
		}
	})
}

// M22: without an answer nothing is locked and nothing published; an edit may mend it.
func TestM22_NoAnswerLocksNothing(t *testing.T) {
	run(t, func(w *world) {
		w.resolving()
		w.digest = func(of *hostsv1.Template) (hostsv1.SHA256, error) {
			return "", fmt.Errorf("%w: image %s: 404", images.ErrUnresolved, of.Image.OCI.Reference)
		}
		w.make("v1.36.0")
		w.reconcile()
		w.writes = nil
		content, err := w.r.Lock(t.Context(), "gpu", 1, "m")
		if !errors.Is(err, images.ErrUnresolved) || !strings.Contains(err.Error(), "lock version gpu-v1") || content.Reference.Version != 0 || len(w.writes) > 0 {
			t.Errorf("got %+v, %v, writes %v", content.Reference, err, w.writes)
		}
		if w.version("gpu-v1").Status.Deployed || w.counted["unresolved"] != 1 {
			t.Errorf("status %+v, counted %v", w.version("gpu-v1").Status, w.counted)
		}
		w.editImage(hostsv1.OCIImage{Reference: "node:1", Digest: digestOf("a")})
		w.reconcile()
		if got := w.lock(1); got.Template.Image.OCI.Digest != digestOf("a") {
			t.Errorf("locked %+v", got.Template.Image.OCI)
		}
	})
}

// M20, M22: a version that is locked because a machine refers to it and a newer one exists has its tag resolved too.
func TestM20M22_ARestoredVersion(t *testing.T) {
	run(t, func(w *world) {
		asked := w.resolving()
		w.make("v1.36.0")
		w.reconcile()
		w.refer("m", 1)
		w.lock(1)
		w.editKubelet("v1.36.1")
		w.reconcile()
		v := w.version("gpu-v1") // restored from before it was locked
		v.Status.Deployed, v.Status.Resolved, v.Status.DeployedAt = false, nil, (*metav1.Time)(nil)
		w.must(w.api.Status().Update(t.Context(), v))
		w.reconcile()
		if v := w.version("gpu-v1"); !v.Status.Deployed || v.Status.Resolved == nil || v.Status.Resolved.ImageDigest != digestOf("2") || len(*asked) != 2 {
			t.Errorf("status %+v, asked %v", v.Status, *asked)
		}
	})
}
