package pullsecret

import (
	"errors"
	"testing"
)

type auth struct {
	Username string `json:"username"`
}

// TestM99_WhichLogin: the one for the longest path, then the one without a pattern, whatever name its registry goes by.
func TestM99_WhichLogin(t *testing.T) {
	l, err := Parse[auth]([]byte(`{"auths": {
		"https://index.docker.io/v1/": {"username": "hub"}, "*.example.com": {"username": "any"}, "a.example.com/v2/": {"username": "a"},
		"a.example.com/nodes/": {"username": "nodes"}, "a.example.com/nodes/base": {"username": "base"}, "b.example.com:5000": {"username": "port"}
	}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ host, repository, want string }{
		{"docker.io", "library/node", "hub"},
		{"registry-1.docker.io", "library/node", "hub"},
		{"index.docker.io", "library/node", "hub"},
		{"A.Example.com", "other", "a"},
		{"a.example.com", "nodes", "nodes"},
		{"a.example.com", "nodes/other", "nodes"},
		{"a.example.com", "nodes-of-others", "a"},
		{"a.example.com", "nodes/base", "base"},
		{"c.example.com", "nodes/base", "any"},
		{"c.d.example.com", "nodes", ""},
		{"example.com", "nodes", ""},
		{"b.example.com:5000", "nodes", "port"},
		{"b.example.org:5000", "nodes", ""},
	} {
		if got, found := l.At(c.host, c.repository); got.Username != c.want || found != (c.want != "") {
			t.Errorf("%s/%s: %q, want %q", c.host, c.repository, got.Username, c.want)
		}
	}
	if got, found := (Logins[auth]{}).At("a.example.com", "nodes"); found {
		t.Errorf("of none: %v", got)
	}
}

func TestM99_WhatIsNoPullSecret(t *testing.T) {
	for _, content := range []string{"", "{", `{"auths": {}}`, `{"auths": "marked"}`, `{"auths": {"a.example.com": "marked"}}`, `{"a.example.com": {"username": "marked"}}`} {
		if _, err := Parse[auth]([]byte(content)); !errors.Is(err, ErrContent) || err.Error() != ErrContent.Error() {
			t.Errorf("%q: %v", content, err)
		}
	}
}
