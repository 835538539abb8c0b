package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// envAgent tells the user data where the agent's binary is.
const envAgent = "NSTANCE_AGENT"

// prologue is what a new process runs until it is known to be recorded. It
// waits for a line; the end of the pipe instead means that the server is gone,
// and then it ends without having done anything. Both times exec keeps the pid.
const prologue = `umask 077; read -r go && : >` + bootedFile + ` && exec /bin/sh "$0" </dev/null`

// start runs the user data of a machine that has no process. The caller holds
// its lock.
func (d *Driver) start(id identity.ID) error {
	cmd, release, err := d.spawn(id)
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	defer release.Close()
	p, err := d.host.identify(cmd.Process.Pid)
	d.bury(id, p, cmd.Process)
	if err == nil {
		err = record(d.dir(id), p)
	}
	if err == nil {
		_, err = release.WriteString("\n")
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err) // the closed pipe ends the process
	}
	return nil
}

// spawn starts the process of a machine, which does nothing before it reads a
// line from the returned end of a pipe.
func (d *Driver) spawn(id identity.ID) (_ *exec.Cmd, release *os.File, err error) {
	dir := d.dir(id)
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	gate, release, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer gate.Close()
	cmd := exec.Command("/bin/sh", "-c", prologue, filepath.Join(dir, userDataFile))
	cmd.Dir = dir
	cmd.Env = d.environment(dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = gate, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = release.Close()
		return nil, nil, err
	}
	return cmd, release, nil
}

// environment is all that a machine learns from the server's. The rest may hold
// secrets, and a machine elsewhere would not have it either.
func (d *Driver) environment(dir string) []string {
	env := []string{
		"HOME=" + dir,
		identity.EnvMachineDir + "=" + dir,
		envAgent + "=" + d.opts.Agent,
		identity.EnvProvider + "=local",
		identity.EnvServerAddrFile + "=" + filepath.Join(d.opts.Dir, leaderFile),
	}
	for _, name := range []string{"PATH", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// bury sees to it that how a child ended is recorded, and that it does not stay a
// zombie then. The child exists at least until then, so its pid is its own.
func (d *Driver) bury(id identity.ID, p process, child *os.Process) {
	opened, err := openPID(child.Pid)
	_ = child.Release()
	if err != nil {
		d.opts.Log.Warn("cannot watch a machine's process", "pid", child.Pid, "error", err)
		return
	}
	if !d.background(func() {
		defer opened.close()
		if opened.ended(d.life) != nil {
			return
		}
		// An end that was asked for needs no reason, and its directory may be on its way out.
		if s, _, err := d.look(string(id)); err != nil || s.status() == driver.Failed {
			err = d.host.recordExit(d.dir(id), p)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				d.opts.Log.Warn("cannot record how a machine's process ended", "instance", id, "error", err)
			}
		}
		_ = opened.reap()
	}) {
		opened.close()
	}
}
