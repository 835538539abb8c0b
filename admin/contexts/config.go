package contexts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"sigs.k8s.io/yaml"
)

// EnvConfig names the configuration file, where --config does not.
const EnvConfig = "NSTANCE_ADMIN_CONFIG"

// maxConfigSize is the size of the largest configuration file that is read, in bytes.
const maxConfigSize = 1 << 20

// Config is a configuration file: contexts by name, and which of them is current.
// It is YAML; unknown fields are an error.
type Config struct {
	// CurrentContext is the context of commands that name none; empty: there is none.
	CurrentContext string `json:"current_context,omitempty"`
	// Contexts are the clusters that are known, by name.
	Contexts map[string]Named `json:"contexts"`

	path string // that it was read from, absolute
}

// Named is a context in a configuration file: written out, or in a file of its own.
type Named struct {
	// File holds the context; then no other field is set. A relative path starts at
	// the folder of the configuration file.
	File string `json:"file,omitempty"`

	Context `json:",inline"`
}

// DefaultPath is where the configuration file is, if neither a flag nor a variable
// names one: nstance/admin.yaml in the user's folder of configurations. Empty: the
// user has none.
func DefaultPath(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "nstance", "admin.yaml")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "nstance", "admin.yaml")
	}
	return ""
}

// Path returns the configuration file that a flag names, else EnvConfig, else the
// default one. named is false for the default one, which need not exist.
func Path(flag string, getenv func(string) string) (path string, named bool) {
	if path := cmp.Or(flag, getenv(EnvConfig)); path != "" {
		return path, true
	}
	return DefaultPath(getenv), false
}

// Load reads the configuration file that a flag or variable names, or the default
// one, without which there are no contexts.
func Load(flag string, getenv func(string) string) (*Config, error) {
	path, named := Path(flag, getenv)
	if path == "" {
		return &Config{}, nil
	}
	c, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return &Config{path: path}, nil
	}
	return c, err
}

// Read reads a configuration file and checks all that it says.
func Read(path string) (*Config, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration file: %w", err)
	}
	c, err := parse(path, data)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfigSize {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, maxConfigSize)
	}
	return os.ReadFile(path)
}

func parse(path string, data []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	c.path = absolute
	for _, name := range c.Names() {
		if err := c.check(name); err != nil {
			return nil, fmt.Errorf("contexts.%s: %w", name, err)
		}
	}
	return c, nil
}

// check checks one context and makes its paths absolute.
func (c *Config) check(name string) error {
	if IsFile(name) || name == "" || strings.ContainsAny(name, " \t\n") {
		return errors.New("a name must not be empty, contain / or blanks, or end in .json")
	}
	n := c.Contexts[name]
	if n.File != "" && !n.isEmpty() {
		return errors.New("file is set, so nothing else may be")
	}
	if err := makeAbsolute(filepath.Dir(c.path), &n.File, &n.IdentityDir, &n.LeaderFile); err != nil {
		return err
	}
	c.Contexts[name] = n
	return nil
}

func (c *Context) isEmpty() bool {
	return c.ClusterID == "" && c.Tenant == "" && c.IdentityDir == "" && len(c.Servers) == 0 && c.LeaderFile == "" && c.Shard == ""
}

// Path is the file that the configuration was read from, or would be; empty: none.
func (c *Config) Path() string { return c.path }

// Names lists the contexts, sorted.
func (c *Config) Names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

// Get returns a context. That it does not exist is an error which names those that do.
func (c *Config) Get(name string) (Context, error) {
	named, ok := c.Contexts[name]
	if !ok {
		return Context{}, c.unknown(name)
	}
	if named.File == "" {
		return named.Context, nil
	}
	context, err := ReadFile(named.File)
	if err != nil {
		return Context{}, fmt.Errorf("context %s of %s: %w", name, c.path, err)
	}
	return context, nil
}

// unknown says what may be meant.
func (c *Config) unknown(name string) error {
	remedy := fmt.Sprintf("for the file of that name write ./%s", name)
	if c.path == "" {
		return fmt.Errorf("context %q does not exist: name a configuration file with --config or %s; %s", name, EnvConfig, remedy)
	}
	if len(c.Contexts) == 0 {
		return fmt.Errorf("context %q does not exist: %s has no contexts; add one under contexts, or %s", name, c.path, remedy)
	}
	return fmt.Errorf("context %q does not exist in %s, which has %s; %s", name, c.path, strings.Join(c.Names(), ", "), remedy)
}

// currentLine is the line of the current context: its value, quoted or plain, and the comment after it.
var currentLine = regexp.MustCompile(`(?m)^current_context:(?:[ \t]+(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[^"'#\s].*?))?([ \t]+#[^\r\n]*)?[ \t\r]*$`)

// Use makes a context the current one, in the file too. Comments and the order of
// the file are left as they are.
func (c *Config) Use(name string) error {
	if _, ok := c.Contexts[name]; !ok {
		return c.unknown(name)
	}
	data, err := readBounded(c.path)
	if err != nil {
		return fmt.Errorf("read configuration file: %w", err)
	}
	line := "current_context: " + strconv.Quote(name)
	text := string(data)
	if currentLine.MatchString(text) {
		comment := currentLine.FindStringSubmatch(text)[1]
		text = currentLine.ReplaceAllLiteralString(text, line+comment)
	} else {
		text = line + "\n" + text
	}
	changed, err := parse(c.path, []byte(text))
	if err != nil || changed.CurrentContext != name || len(changed.Contexts) != len(c.Contexts) {
		return fmt.Errorf("configuration file %s: the line current_context cannot be written; set it to %q by hand", c.path, name)
	}
	info, err := os.Stat(c.path)
	if err != nil {
		return fmt.Errorf("write configuration file: %w", err)
	}
	target, err := filepath.EvalSymlinks(c.path) // a link is kept
	if err != nil {
		return fmt.Errorf("write configuration file: %w", err)
	}
	if err := renameio.WriteFile(target, []byte(text), info.Mode().Perm(), renameio.WithStaticPermissions(info.Mode().Perm())); err != nil {
		return fmt.Errorf("write configuration file: %w", err)
	}
	c.CurrentContext = name
	return nil
}
