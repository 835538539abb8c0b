package digest_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"nstance.dev/agent/paver/digest"
)

func TestParse(t *testing.T) {
	const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	d, err := digest.Parse(empty)
	if err != nil || d != digest.Of(nil) || d.String() != empty || d.IsZero() {
		t.Errorf("got %v, %v", d, err)
	}
	for _, text := range []string{
		"", "sha256:", empty[7:], empty + "0", empty[:70], strings.ToUpper(empty),
		"sha256:" + strings.Repeat("g", 64), "sha512:" + empty[7:], "sha256:../" + empty[10:],
	} {
		if _, err := digest.Parse(text); err == nil {
			t.Errorf("%q is taken for a digest", text)
		}
	}
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		content string
		right   bool
	}{{"content", true}, {"content.", false}, {"conten", false}, {"", false}} {
		r := digest.Verify(iotest.DataErrReader(strings.NewReader(c.content)), digest.Of([]byte("content")))
		got, err := io.ReadAll(r)
		if (err == nil) != c.right || !c.right && !errors.Is(err, digest.ErrMismatch) {
			t.Errorf("%q: %v", c.content, err)
		}
		if string(got) != c.content {
			t.Errorf("%q comes out as %q", c.content, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(digest.Of(nil).String())
	f.Add("sha256:")
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := digest.Parse(text); err == nil && d.String() != text {
			t.Errorf("%q is read as %v", text, d)
		}
	})
}
