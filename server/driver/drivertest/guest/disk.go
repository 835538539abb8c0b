package guest

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Mapped are the directories that a machine has of its own: user data and unit files
// that name something in one of them get it in the machine's directory.
var Mapped = []string{"/opt/nstance-agent", "/etc/systemd/system", "/etc/nstance", "/usr/local/bin", "/var/lib/nstance-cluster"}

// agentPath is where machines have the agent's program.
const agentPath = "/usr/local/bin/nstance-agent"

// Names in a machine's directory.
const (
	rootDir    = "root"          // what is under Mapped
	filesDir   = "files"         // content of write_files
	enabledDir = "enabled"       // a file for each service that starts with the machine
	runDir     = "run"           // pids of services; emptied at every boot
	binDir     = "bin"           // first on the machine's PATH
	systemctl  = "bin/systemctl" // the service manager
	initFile   = "init"          // what holds the machine together
	bootFile   = "boot"          // what runs when the machine boots
	scriptFile = "userdata"      // what bootFile runs, if that is not for sh
	bootedFile = "booted"        // the user data was begun
	machineLog = "log"           // what everything prints
)

// Nobody else may read a machine's directory: user data holds a nonce.
const (
	private     fs.FileMode = 0o600
	privateExec fs.FileMode = 0o700
)

//go:embed init.sh
var initScript string

//go:embed systemctl.sh
var systemctlScript string

var mappedPattern = func() *regexp.Regexp {
	quoted := make([]string, len(Mapped))
	for i, dir := range Mapped {
		quoted[i] = regexp.QuoteMeta(dir)
	}
	return regexp.MustCompile(`(^|[^A-Za-z0-9._/-])(` + strings.Join(quoted, "|") + `)($|[^A-Za-z0-9._-])`)
}()

// mapped puts root before every path in text that is under one of [Mapped].
func mapped(text, root string) string {
	replacement := "${1}" + strings.ReplaceAll(root, "$", "$$") + "${2}${3}"
	// Two paths may share the character between them, which one pass then gives to
	// the first of them only.
	text = mappedPattern.ReplaceAllString(text, replacement)
	return mappedPattern.ReplaceAllString(text, replacement)
}

// prepare lays the machine's directory out for a boot.
func (o Options) prepare() error {
	for _, dir := range []string{"", rootDir, binDir, filesDir, enabledDir} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), privateExec); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(o.path(runDir)); err != nil {
		return err
	}
	if err := os.Mkdir(o.path(runDir), privateExec); err != nil {
		return err
	}
	_, err := os.Stat(o.path(bootedFile))
	if err == nil && !o.EveryBoot {
		return o.write(bootFile, o.again())
	}
	return o.first()
}

// first lays out what a new machine has, and what its user data asks for.
func (o Options) first() error {
	u, err := ParseUserData(o.UserData)
	if err != nil {
		return err
	}
	files := map[string]string{initFile: initScript, systemctl: systemctlScript, bootedFile: ""}
	for at, content := range o.Files {
		files[rootDir+at] = mapped(content, o.path(rootDir))
	}
	for i, content := range u.Files {
		files[filepath.Join(filesDir, strconv.Itoa(i))] = mapped(string(content), o.path(rootDir))
	}
	script := mapped(u.Script, o.path(rootDir))
	if u.Shell != "sh" {
		files[scriptFile] = script
		script = "exec " + u.Shell + " " + quote(o.path(scriptFile))
	}
	files[bootFile] = script
	for name, content := range files {
		if err := o.write(name, content); err != nil {
			return err
		}
	}
	return o.install()
}

// again is what a machine does that boots with its disk.
func (o Options) again() string {
	entries, err := os.ReadDir(o.path(enabledDir))
	if err != nil {
		return fmt.Sprintf("echo %s >&2\n", quote(err.Error()))
	}
	var script strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&script, "systemctl start %s\n", quote(e.Name()))
	}
	return script.String()
}

// install puts the agent's program onto the disk.
func (o Options) install() error {
	if o.Agent == "" {
		return nil
	}
	at := o.path(rootDir + agentPath)
	if err := os.MkdirAll(filepath.Dir(at), privateExec); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(o.Agent, at)
}

func (o Options) path(name string) string { return filepath.Join(o.Dir, name) }

// write writes a file of the machine, which nobody else may read.
func (o Options) write(name, content string) error {
	path := o.path(name)
	if err := os.MkdirAll(filepath.Dir(path), privateExec); err != nil {
		return err
	}
	mode := private
	if name == systemctl {
		mode = privateExec
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
