package guest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// ErrUserData is matched by every error of [ParseUserData].
var ErrUserData = errors.New("user data that no guest can run")

// UserData is what a machine does when it boots for the first time.
type UserData struct {
	Shell string // that runs the script: sh or bash
	// Script is what it does. It finds the content of each of Files in the file
	// $GUEST_DIR/files/N, N from 0.
	Script string
	Files  [][]byte
}

// ParseUserData reads a script, which begins with #! and the path of sh or bash, or
// cloud-config with nothing but write_files, bootcmd, runcmd and hostname. A path in
// write_files is taken as it is; see [Mapped].
func ParseUserData(text []byte) (UserData, error) {
	first, rest, _ := strings.Cut(string(text), "\n")
	first = strings.TrimRight(first, " \t\r")
	if interpreter, ok := strings.CutPrefix(first, "#!"); ok {
		return parseScript(interpreter, string(text))
	}
	if first == "#cloud-config" {
		return parseCloudConfig(rest)
	}
	return UserData{}, fmt.Errorf("%w: it begins with %.40q; it must begin with #!/bin/sh or #cloud-config", ErrUserData, first)
}

func parseScript(interpreter, text string) (UserData, error) {
	words := strings.Fields(interpreter)
	if len(words) == 2 && words[0] == "/usr/bin/env" {
		words = words[1:]
	}
	if len(words) == 1 {
		if shell := path.Base(words[0]); shell == "sh" || shell == "bash" {
			return UserData{Shell: shell, Script: text}, nil
		}
	}
	return UserData{}, fmt.Errorf("%w: #!%s: the interpreter must be sh or bash, without options", ErrUserData, interpreter)
}

// cloudConfig is the part of cloud-init's format that is understood.
// See https://cloudinit.readthedocs.io/en/latest/reference/modules.html.
type cloudConfig struct {
	WriteFiles []cloudFile `json:"write_files"`
	BootCmd    []command   `json:"bootcmd"`
	RunCmd     []command   `json:"runcmd"`
	Hostname   string      `json:"hostname"` // accepted; a guest has its host's name
}

type cloudFile struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Encoding    string `json:"encoding"`    // text/plain, b64 or base64
	Permissions string `json:"permissions"` // octal; 0644
	Owner       string `json:"owner"`       // accepted; everything belongs to who runs the guest
	Append      bool   `json:"append"`
	Defer       bool   `json:"defer"` // accepted; packages and users, which it waits for, there are none
}

// command is a line for the shell, or a list of words.
type command struct{ line string }

// UnmarshalJSON reads either form.
func (c *command) UnmarshalJSON(data []byte) error {
	var words []string
	if err := yaml.Unmarshal(data, &words); err == nil {
		for i, w := range words {
			words[i] = quote(w)
		}
		c.line = strings.Join(words, " ")
		return nil
	}
	if err := yaml.Unmarshal(data, &c.line); err != nil {
		return fmt.Errorf("%s is neither a line nor a list of words", data)
	}
	return nil
}

var octal = regexp.MustCompile(`^0?[0-7]{3}$`)

func parseCloudConfig(text string) (UserData, error) {
	var config cloudConfig
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return UserData{}, fmt.Errorf("%w: cloud-config: %w", ErrUserData, err)
	}
	u := UserData{Shell: "sh"}
	var script strings.Builder
	for _, c := range config.BootCmd {
		fmt.Fprintln(&script, c.line)
	}
	for i, f := range config.WriteFiles {
		content, err := f.decode()
		if err != nil {
			return UserData{}, fmt.Errorf("%w: write_files[%d]: %w", ErrUserData, i, err)
		}
		u.Files = append(u.Files, content)
		f.write(&script, i)
	}
	for _, c := range config.RunCmd {
		fmt.Fprintln(&script, c.line)
	}
	u.Script = script.String()
	return u, nil
}

func (f cloudFile) decode() ([]byte, error) {
	switch {
	case !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path:
		return nil, fmt.Errorf("path %q is not absolute and plain", f.Path)
	case f.Permissions != "" && !octal.MatchString(f.Permissions):
		return nil, fmt.Errorf("permissions %q are not three octal digits with a 0 before them", f.Permissions)
	}
	switch f.Encoding {
	case "", "text/plain":
		return []byte(f.Content), nil
	case "b64", "base64":
		content, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace([]byte(f.Content))))
		if err != nil {
			return nil, fmt.Errorf("content: %w", err)
		}
		return content, nil
	}
	return nil, fmt.Errorf("encoding %q: must be text/plain or b64", f.Encoding)
}

// write appends the commands that put file number i where it belongs.
func (f cloudFile) write(script *strings.Builder, i int) {
	mode := f.Permissions
	if mode == "" {
		mode = "0644"
	}
	target := quote(f.Path)
	fmt.Fprintf(script, "mkdir -p %s\n", quote(path.Dir(f.Path)))
	put := ">"
	if f.Append {
		put = ">>"
	} else {
		fmt.Fprintf(script, "rm -f %s\n", target)
	}
	fmt.Fprintf(script, "cat \"$GUEST_DIR/files/%d\" %s %s\nchmod %s %s\n", i, put, target, mode, target)
}

// quote makes one word of the shell's out of any text.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
