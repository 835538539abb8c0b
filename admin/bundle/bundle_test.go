package bundle_test

import (
	"encoding/json"
	"strings"
	"testing"

	"nstance.dev/admin/bundle"
)

func TestS14_WhatLooksLikeASecretIsMasked(t *testing.T) {
	for name, text := range map[string]string{
		"a password with blanks":       `password="MARK and MARK, MARK"`,
		"one of a field":               `password: MARKMARK`,
		"a token of the HTTP API":      `header nst_MARKmarkMARKmarkMARKmarkMARKmarkMARKmark is not known`,
		"who logs in at an address":    `get https://user:MARK@registry.example/v2: 401`,
		"an address that is signed":    `get https://s3.example/x?X-Amz-Signature=MARKMARK&x=1: 403`,
		"a token of another program":   `Authorization: Bearer MARKMARK`,
		"one in a program's own words": `pull "x": secret = 'MARK'`,
		"a private key":                "-----BEGIN PRIVATE KEY-----\nMARK\n-----END PRIVATE KEY-----",
	} {
		in, err := json.Marshal(map[string]string{"message": text, "after": "stays"})
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range [][]byte{in, []byte(text)} {
			if got := string(bundle.Mask(form)); strings.Contains(got, "MARK") || !strings.Contains(got, "[masked]") {
				t.Errorf("%s: %s becomes %s", name, form, got)
			}
		}
		if got := bundle.Mask(in); !json.Valid(got) || !strings.Contains(string(got), `"after":"stays"`) {
			t.Errorf("%s: %s is not what it was otherwise", name, got)
		}
	}
	field := []byte(`{"password": "MARK, \" MARK", "token":"MARK", "size": 3, "secrets": []}`)
	if got := bundle.Mask(field); string(got) != `{"password": "[masked]", "token":"[masked]", "size": 3, "secrets": []}` {
		t.Errorf("fields become %s", got)
	}
}

func TestPlainTextStays(t *testing.T) {
	const text = `{"group":"web","reason":"size 3, 2 running; see https://docs.example/tokens","nst_short":1}`
	if got := string(bundle.Mask([]byte(text))); got != text {
		t.Errorf("it becomes %s", got)
	}
}
