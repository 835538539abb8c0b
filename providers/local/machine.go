package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Names in a machine's directory.
const (
	metadataFile = "machine.json"
	userDataFile = "userdata"
	logFile      = "log"
	pidFile      = "pid"
	startFile    = "start"
	bootedFile   = "booted"
	stoppedFile  = "stopped"
)

// Names beside the machines.
const (
	leaderFile   = "leader.json"
	balancersDir = "balancers"
	imagesDir    = "images"
	marksDir     = ".deleted"
	locksDir     = ".locks"
	newDir       = ".new"
	trashDir     = ".trash"
)

// metadata is what a machine's directory says of it: the tags of this cloud.
type metadata struct {
	InstanceID   identity.ID `json:"instance_id"`
	Cluster      string      `json:"cluster"`
	Shard        string      `json:"shard"`
	Tenant       string      `json:"tenant"`
	Group        string      `json:"group"`
	Template     string      `json:"template"`
	Kind         string      `json:"kind"`
	Arch         string      `json:"arch"`
	InstanceType string      `json:"instance_type"`
	SubnetID     string      `json:"subnet_id"`
	CreatedAt    time.Time   `json:"created_at"`
}

func metadataOf(r driver.CreateRequest) metadata {
	return metadata{
		InstanceID: r.InstanceID, Cluster: r.Owner.Cluster, Shard: r.Owner.Shard,
		Tenant: r.Tenant, Group: r.Group, Template: r.Template, Kind: r.Kind, Arch: r.Arch,
		InstanceType: r.InstanceType, SubnetID: r.SubnetID, CreatedAt: r.CreatedAt,
	}
}

func (m metadata) owner() driver.Owner { return driver.Owner{Cluster: m.Cluster, Shard: m.Shard} }

// sight is all that decides about the status of a machine, and why it does not run.
type sight struct {
	marked  bool // its end was asked for
	stopped bool // Halt stopped it
	started bool // a process was recorded
	reboot  bool // and the box was booted since then
	alive   bool // that process runs
	booted  bool // the user data was begun

	why string // the machine failed, or a boot of the box stopped it; otherwise empty
}

// status says what a machine is that looks like this.
func (s sight) status() driver.Status {
	switch {
	case s.marked:
		return driver.Deleting
	case s.stopped && s.alive:
		return driver.Stopping
	case s.stopped, s.reboot:
		return driver.Stopped
	case s.alive && s.booted:
		return driver.Running
	case s.started && s.booted:
		return driver.Failed
	default:
		return driver.Pending
	}
}

// unfinished reports whether a create was interrupted before the user data ran.
func (s sight) unfinished() bool { return s.status() == driver.Pending && !s.alive }

// look sees a machine's state. The marker of a halt is read before and after the
// process, because Halt sets it before it kills and Resume takes it away before
// it starts; the mark of a delete is read last, because it comes before the kill.
func (d *Driver) look(name string) (sight, process, error) {
	var s sight
	var errs [4]error
	dir := filepath.Join(d.opts.Dir, name)
	s.stopped, errs[0] = exists(filepath.Join(dir, stoppedFile))
	p, err := readStart(dir)
	if err != nil {
		return s, p, err
	}
	s.started = p != process{}
	s.reboot = s.started && p.Boot != d.host.boot
	s.booted, errs[1] = exists(filepath.Join(dir, bootedFile))
	if s.alive, err = d.host.alive(p); err != nil {
		return s, p, err
	}
	if !s.alive && !s.stopped {
		s.stopped, errs[2] = exists(filepath.Join(dir, stoppedFile))
	}
	s.marked, errs[3] = d.marked(identity.ID(name))
	switch status := s.status(); {
	case status == driver.Failed:
		s.why = d.host.howEnded(dir, p)
	case status == driver.Stopped && !s.stopped:
		s.why = "the box was booted since the machine was started"
	}
	return s, p, errors.Join(errs[:]...)
}

// marked reports whether the end of a machine was asked for.
func (d *Driver) marked(id identity.ID) (bool, error) { return exists(d.hidden(marksDir, id)) }

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// readStart returns the recorded process; zero if none was recorded yet.
func readStart(dir string) (process, error) {
	path := filepath.Join(dir, startFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return process{}, nil
	}
	var p process
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return process{}, fmt.Errorf("read %s: %w", path, err)
	}
	return p, nil
}

// record makes p the machine's process. The file of the pid is for others; what
// we trust is one file, so that it is written as a whole or not at all.
func record(dir string, p process) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, startFile), append(data, '\n'), 0o600); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(p.PID)+"\n"), 0o600)
}

// forget makes a stopped machine one that was never started. The marker of the
// halt goes last, so that a crash in between leaves it stopped.
func forget(dir string) error {
	for _, name := range []string{pidFile, bootedFile, exitFile, startFile, stoppedFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readMetadata returns what a directory says of its machine.
func readMetadata(dir string) (metadata, error) {
	path := filepath.Join(dir, metadataFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return metadata{}, err
	}
	var m metadata
	if err := json.Unmarshal(data, &m); err != nil {
		return metadata{}, fmt.Errorf("read %s: %w", path, err)
	}
	return m, nil
}

// build makes the directory of a new machine. It appears complete or not at
// all, and exclusively: that it did not exist before is what makes a create
// happen once. The caller holds the lock.
func (d *Driver) build(req driver.CreateRequest) error {
	temp := d.hidden(newDir, req.InstanceID)
	if err := os.RemoveAll(temp); err != nil { // a create that a crash interrupted
		return err
	}
	for _, sub := range []string{"identity", "keys", "recv"} {
		if err := os.MkdirAll(filepath.Join(temp, sub), 0o700); err != nil {
			return err
		}
	}
	meta, err := json.MarshalIndent(metadataOf(req), "", "  ")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{metadataFile: append(meta, '\n'), userDataFile: req.UserData} {
		if err := writeSynced(filepath.Join(temp, name), data); err != nil {
			return err
		}
	}
	err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, d.dir(req.InstanceID), unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: temp, New: d.dir(req.InstanceID), Err: err}
	}
	return nil
}

// writeSynced writes a file that nobody sees yet and that must survive a loss
// of power once its directory was renamed.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// dir is the directory of a machine.
func (d *Driver) dir(id identity.ID) string { return filepath.Join(d.opts.Dir, string(id)) }

// hidden is a machine's place in one of the hidden directories.
func (d *Driver) hidden(sub string, id identity.ID) string {
	return filepath.Join(d.opts.Dir, sub, string(id))
}
