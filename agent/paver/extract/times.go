package extract

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func setTime(dir *os.File, name string, at time.Time) error {
	stamp, err := unix.TimeToTimespec(clamp(at))
	if err != nil {
		return fmt.Errorf("modification time: %w", err)
	}
	if err := unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("modification time: %w", err)
	}
	return nil
}

// dirTime is the modification time that a directory will have.
type dirTime struct {
	path string
	at   time.Time
}

// dirTimes are those of the directories of a layer: what is made in them would move them.
type dirTimes struct {
	all  []dirTime
	size int
}

// maxTimes bounds the memory that the paths of a layer's directories take.
const maxTimes = 64 << 20

func (d *dirTimes) add(path string, at time.Time) error {
	d.size += len(path) + 64
	if d.size > maxTimes {
		return fmt.Errorf("%w: the paths of its directories have more than %d bytes", ErrRefused, maxTimes)
	}
	d.all = append(d.all, dirTime{path, at})
	return nil
}

// set gives directories their times once nothing else is made in them. Those that a later
// entry has replaced are left alone.
func (d *dirTimes) set(t *Tree) error {
	for _, d := range d.all {
		dir, err := t.resolve(d.path)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, ErrRefused) {
			continue
		}
		if err != nil {
			return err
		}
		err = setTime(dir, ".", d.at)
		_ = dir.Close() // opened as a path
		if err != nil {
			return fmt.Errorf("%.200q: %w", d.path, err)
		}
	}
	return nil
}

// clamp keeps times within what file systems can say.
func clamp(at time.Time) time.Time {
	return time.Unix(min(max(at.Unix(), 0), math.MaxInt32*4), int64(at.Nanosecond()))
}
