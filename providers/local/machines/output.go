package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// OutputSources are the log of a machine's process alone.
func (all *Machines) OutputSources() []driver.OutputSource {
	return []driver.OutputSource{driver.Log}
}

// Output returns the end of what the processes of a machine have written.
func (all *Machines) Output(ctx context.Context, ref driver.Ref, source driver.OutputSource) (out driver.Output, err error) {
	const op = "output"
	if err := ctx.Err(); err != nil {
		return driver.Output{}, driver.Fail(driver.Transient, op, err)
	}
	if source != driver.Log {
		return driver.Output{}, driver.Fail(driver.Unsupported, op, fmt.Errorf("a machine here is a process, which has a %q and no %q", driver.Log, source))
	}
	id, err := store.Resolve(op, ref)
	if err != nil {
		return driver.Output{}, err
	}
	found := false
	err = all.locked(ctx, id, func(_ context.Context, id identity.ID) error {
		found = true
		out, err = end(filepath.Join(all.store.Dir(id), store.LogFile))
		return err
	})
	switch {
	case err != nil:
		return driver.Output{}, driver.Fail(driver.Transient, op, fmt.Errorf("%s: %w", id, err))
	case !found:
		return driver.Output{}, driver.Fail(driver.NotFound, op, fmt.Errorf("%s does not exist", id))
	}
	return out, nil
}

// end reads the end of a log, which may not be there yet.
func end(path string) (driver.Output, error) {
	log, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Output{}, nil
	}
	if err != nil {
		return driver.Output{}, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return driver.Output{}, err
	}
	from := max(0, info.Size()-driver.MaxOutput)
	data, err := io.ReadAll(io.NewSectionReader(log, from, driver.MaxOutput))
	return driver.Output{Data: data, Cut: from > 0}, err
}
