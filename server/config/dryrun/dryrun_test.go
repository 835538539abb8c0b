package dryrun_test

import (
	"fmt"
	"slices"
	"testing"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/dryrun"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/driver"
)

// said is where a group's templates fail, and why.
func said(failed []dryrun.Failure) (all []string) {
	for _, f := range failed {
		all = append(all, fmt.Sprint(f.Place, " ", dryrun.Message(f.Err)))
	}
	return all
}

// TestF51_WhatOfAGroupDoesNotRender: each template is tried with the variables of the group,
// and what comes of it has to be what its place takes.
func TestF51_WhatOfAGroupDoesNotRender(t *testing.T) {
	cfg := configtest.LoadFull(t)
	cfg.Rules = effective.New(cfg.Config, &driver.Rules{CheckUserdata: func(data []byte) error {
		if string(data) == "no" {
			return fmt.Errorf("the cloud takes no %q", data)
		}
		return nil
	}}).Rules
	cfg.Certificates["made"] = document.Certificate{Kind: document.CertServer, DNS: []string{"{{ .Vars.v }}"}}
	file := func(kind string, template any, source string) map[string]document.File {
		return map[string]document.File{"f": {Kind: kind, Template: template, Source: source}}
	}
	for name, tt := range map[string]struct {
		group effective.Group
		want  []string
	}{
		"nothing": {},
		"all of it": {group: effective.Group{
			Vars: document.Vars{"v": "x"}, Args: map[string]any{"a": []any{map[string]any{"b": "{{ .Vars.v }}"}}},
			Files: file(document.FileString, "{{ .Vars.v }}", ""), Userdata: document.Userdata{Source: document.SourceInline, Content: "{{ .Vars.v }}"},
		}},
		"an argument": {
			group: effective.Group{Args: map[string]any{"a": []any{map[string]any{"b": "{{ .Vars.v }}"}}}},
			want:  []string{`[args a 0 b] template: line 1: at <.Vars.v>: there is no "v"`},
		},
		"a file": {
			group: effective.Group{Files: file(document.FileString, "{{ .Vars.v }}", "")},
			want:  []string{`[files f template] template: line 1: at <.Vars.v>: there is no "v"`},
		},
		"user data that the cloud refuses": {
			group: effective.Group{Vars: document.Vars{"v": "no"}, Userdata: document.Userdata{Source: document.SourceInline, Content: "{{ .Vars.v }}"}},
			want:  []string{`[userdata content] the cloud takes no "no"`},
		},
		"the key of an object": {
			group: effective.Group{Vars: document.Vars{"v": "../x"}, Files: file(document.FileStorage, nil, "files/{{ .Vars.v }}")},
			want:  []string{`[files f source] it comes to "files/../x", which is not a key of an object: a part of it begins with a dot`},
		},
		"a name of a certificate": {
			group: effective.Group{Vars: document.Vars{"v": "a.nstance"}, Files: file(document.FileCertificate, "made", "")},
			want:  []string{`[certificates made dns 0] "a.nstance" belongs to Nstance itself`},
		},
	} {
		if got := said(dryrun.New(cfg).Group(&tt.group, false)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q\nwant %q", name, got, tt.want)
		}
	}
}

// Of plain groups of one template only those are tried that have other values for what the
// texts name; what comes of the others is the same.
func TestPlainGroupsAreTriedOnce(t *testing.T) {
	tries := 0
	cfg := configtest.LoadFull(t)
	cfg.Rules = effective.New(cfg.Config, &driver.Rules{CheckUserdata: func([]byte) error { tries++; return nil }}).Rules
	trials := dryrun.New(cfg)
	group := func(v, w string) *effective.Group {
		return &effective.Group{
			Template: "t", Vars: document.Vars{"v": v, "w": w},
			Userdata: document.Userdata{Source: document.SourceInline, Content: "{{ .Vars.v }}"},
		}
	}
	for i, g := range []*effective.Group{group("1", "1"), group("1", "2"), group("2", "2"), group("1", "3")} {
		if failed := trials.Group(g, true); len(failed) > 0 {
			t.Errorf("group %d: %v", i, failed)
		}
	}
	if tries != 2 {
		t.Errorf("the user data was tried %d times, want twice: v has two values", tries)
	}
	if err := trials.Try("{{ .Vars.none }}", document.Vars{"v": "1"}, texttemplate.Files); err == nil {
		t.Error("a variable that is missing renders")
	}
}
