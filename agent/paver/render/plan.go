package render

import "io/fs"

// Place says whose root a path begins at.
type Place string

// Places of files.
const (
	Slot   Place = "slot" // in the node machine
	OnHost Place = "host" // beneath it
)

// File is a file, or a symbolic link, that is written.
type File struct {
	Place Place
	// Path is absolute and clean.
	Path string
	// Mode are the permissions of a file; links have none.
	Mode fs.FileMode
	// Content of a file.
	Content string
	// Link is the target of a symbolic link; empty: it is a file.
	Link string
	// Secret files are made readable for root alone before anything is written to them. Their
	// content is in no log, report, journal or manifest.
	Secret bool
	// Runtime files may change while the machine runs: a change is no drift.
	Runtime bool
}

// String names the file and never shows what is in it.
func (f File) String() string {
	if f.Link != "" {
		return string(f.Place) + " " + f.Path + " -> " + f.Link
	}
	return string(f.Place) + " " + f.Path + " " + f.Mode.String()
}

// GoString is String.
func (f File) GoString() string { return f.String() }

// Setting is a parameter of the host's kernel.
type Setting struct {
	// Name as sysctl has it, such as `net.ipv4.ip_forward`.
	Name string
	// Path of its file below /proc/sys.
	Path string
	// Value without a line's end.
	Value string
	// Optional: the kernel may lack it.
	Optional bool
}

// Directory is one of the host that survives a repave. It has to exist before the machine boots.
type Directory struct {
	// Path on the host.
	Path string
	// Wipe: it is emptied before the machine of a new assignment boots.
	Wipe bool
}

// Plan is what is written and set.
type Plan struct {
	// Files ordered by place and path.
	Files []File
	// Modules of the kernel to be loaded, in this order, before Sysctls are set.
	Modules []string
	// Sysctls of the host ordered by name.
	Sysctls []Setting
	// Persist are the directories that survive, in the order of the template.
	Persist []Directory
}

// Of returns the files of one place, in order.
func (p Plan) Of(place Place) []File {
	var files []File
	for _, f := range p.Files {
		if f.Place == place {
			files = append(files, f)
		}
	}
	return files
}
