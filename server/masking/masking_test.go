package masking

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const (
	// token is in the form of a nonce.
	token = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJtYXJrZXIifQ.c2lnbmF0dXJlLW9mLW1hcmtlcg"

	template = `#!/bin/sh
set -eu
export NSTANCE_NONCE='{{ .Nonce }}'
echo "role {{ .Vars.role }} of {{ .Instance.ID }}"
{{ if .Vars.debug }}set -x{{ else }}exec 2>/dev/null{{ end }}
password=hunter2
login --user "admin" --pass "{{ .Vars.pass }}"
PW="{{ .Vars.pass }}"
{{ .Vars.script }}
exec "$NSTANCE_AGENT" --label a={{ .Vars.role }}
fi
`
)

var mask = New(template, []string{"a secret value\nof two lines", "web"})

func TestWhatIsMasked(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIMARKERMARKERMARKER\n-----END PRIVATE KEY-----"
	wrapped := func(text string, width int) string {
		text = base64.StdEncoding.EncodeToString([]byte(text))
		var out []string
		for len(text) > width {
			out, text = append(out, text[:width]), text[width:]
		}
		return strings.Join(append(out, text), "\n")
	}
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	_, _ = w.Write([]byte(template))
	_ = w.Close()
	for _, c := range []struct{ name, text, want string }{
		{"what a kernel says stays", "[    0.000000] Linux version 6.1\n[    1.2] eth0: up\n", "[    0.000000] Linux version 6.1\n[    1.2] eth0: up\n"},
		{"a nonce", "token " + token + " used\n", "token " + ShownNonce + " used\n"},
		{"a nonce that is not all there yet", "token " + token[:40], "token " + ShownNonce},
		{"a nonce with colours in it", "token eyJhbGci\x1b[31mOiJFZERTQSJ9.eyJz\x1b[0mdWIi.c2ln\n", "token " + ShownNonce + "\n"},
		{"a line of user data with what was rendered", "+ export NSTANCE_NONCE='" + token + "'\n", ShownUserData + "\n"},
		{"with other variables than now", "role old-marker of vmx0\n", "role old-marker of vmx0\n"},
		{"such a line as it stands in the script", `echo "role old-marker of vmx0"` + "\n", ShownUserData + "\n"},
		{"a line as a shell prints it, with its own quotes", `+ login --user admin --pass 'old secret'` + "\n", ShownUserData + "\n"},
		{"a short one without any", "+ PW=oldsecret\n", ShownUserData + "\n"},
		{"a line after what a log puts before it", "Nov 27 host cloud-init[7]: password=hunter2\n", ShownUserData + "\n"},
		{"blanks that were changed", "set   -eu\n", ShownUserData + "\n"},
		{"a short line on its own", "fi\n", ShownUserData + "\n"},
		{"a short line within another", "wifi: set -x of fi\n", "wifi: set -x of fi\n"},
		{"one side of a branch", "exec 2>/dev/null\n", ShownUserData + "\n"},
		{"a value of several lines", "x a secret value\nof two lines y\n", ShownUserData + "\n" + ShownUserData + "\n"},
		{"a private key", "key:\n" + key + "\nafter\n", "key:\n" + ShownKey + "\nafter\n"},
		{"a private key whose end is missing", key[:60], ShownKey},
		{"a private key whose beginning is missing", key[28:] + "\nafter\n", ShownKey + "\nafter\n"},
		{"user data in base64", wrapped(template, 76) + "\nafter\n", ShownUserData + "\nafter\n"},
		{"user data in base64 whose beginning is missing", wrapped(template, 76)[39:] + "\n", ShownUserData + "\n"},
		{"user data in base64 on one line", wrapped(template, 1<<20) + "\n", ShownUserData + "\n"},
		{"user data that is compressed", wrapped(zip.String(), 64) + "\n", ShownUserData + "\n"},
		{"user data that is compressed, after other things in base64", "this-is-the-name-of-a-host\n" + wrapped(zip.String(), 64) + "\n", "this-is-the-name-of-a-host\n" + ShownUserData + "\n"},
		{"another thing in base64 stays", wrapped("this is a fingerprint of a host, which all may know", 76) + "\n", wrapped("this is a fingerprint of a host, which all may know", 76) + "\n"},
		{"commands to a terminal", "a\x1b]0;title\x07b\x1b[2Jc\u009bd\x00e\u202ef\r\ng\rh\n", "abcdef\ng\nh\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, places := mask.Apply(c.text)
			if got != c.want {
				t.Errorf("shown\n%q, want\n%q", got, c.want)
			}
			if shown := strings.Count(c.want, " masked]"); places != shown {
				t.Errorf("%d places are said to be masked, %d are", places, shown)
			}
		})
	}
}

// What a machine writes costs what its length is, and not more where it looks as if it were encoded.
func TestS22_LinesThatLookEncoded(t *testing.T) {
	memory := func(size int) uint64 {
		text := strings.Repeat("abcdefghijklmnop\n", size/17)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got, _ := mask.Apply(text); got != text {
			t.Errorf("shown is %.100q", got)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	memory(1 << 10) // what is made once
	if part, all := memory(8<<10), memory(64<<10); all > 16*part {
		t.Errorf("%d bytes of memory for a text of 64 KiB, %d for an eighth of it", all, part)
	}
}

func TestVariablesWithinLinesAreNotLookedFor(t *testing.T) {
	m := New("role={{ .Vars.role }}\n", []string{"webserver"})
	if got, _ := m.Apply("the webserver starts\n+ role=webserver\nparole=1\n"); got != "the webserver starts\n"+ShownUserData+"\nparole=1\n" {
		t.Errorf("shown is %q", got)
	}
	var none Mask
	if got, _ := none.Apply("role=webserver\n" + token); got != "role=webserver\n"+ShownNonce {
		t.Errorf("without user data %q is shown", got)
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		name, text string
		most       int
		cut        bool
		want       string
		wantCut    bool
	}{
		{"all of it", "a\nb\n", 4, false, "a\nb\n", false},
		{"whole lines", "aa\nbb\ncc\n", 7, false, "bb\ncc\n", true},
		{"from the beginning of a line", "aa\nbb\ncc\n", 6, false, "bb\ncc\n", true},
		{"of one long line nothing", "aaaaaaaa", 4, false, "", true},
		{"what was cut before", "aa\nbb\n", 100, true, "bb\n", true},
		{"nothing", "", 4, false, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, cut := Tail([]byte(c.text), c.most, c.cut)
			if string(got) != c.want || cut != c.wantCut {
				t.Errorf("%q, %t; want %q, %t", got, cut, c.want, c.wantCut)
			}
		})
	}
}

// FuzzApply: whatever stands around it, a nonce does not get through, and nothing does that a terminal obeys.
func FuzzApply(f *testing.F) {
	f.Add("[1.0] boot ", "\r\nmore", uint8(9))
	f.Add("\x1b[31m", "\x1b", uint8(3))
	f.Add("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", uint8(0))
	f.Add("YWFhYWFhYWFhYWFhYWFhYWFh\n", "\nYWFhYWFhYWFhYWFhYWFhYWFh", uint8(0))
	f.Fuzz(func(t *testing.T, before, after string, cut uint8) {
		whole := before + " " + token[:len(token)-int(cut)%20] + after + "\npassword=hunter2 " + after
		got, _ := mask.Apply(whole)
		if strings.Contains(got, "eyJzdWIiOiJtYXJrZXIifQ") || strings.Contains(got, "hunter2") && !strings.Contains(before+after, "hunter2") {
			t.Errorf("%q is shown as %q", whole, got)
		}
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("%q is shown as %q", whole, got)
		}
		if again, _ := mask.Apply(got); strings.Count(again, " masked]") < strings.Count(got, " masked]") {
			t.Errorf("%q is shown as %q the second time", got, again)
		}
	})
}
