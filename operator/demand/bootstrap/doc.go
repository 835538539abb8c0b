// Package bootstrap renders what makes a machine join the cluster: the blob that a shard asks
// for when it has bound a machine, and that runs on it with the rights of root.
//
// The blob comes from a file of the administrator, a text/template. A [Renderer] parses it
// when it is made, [Renderer.Run] follows the file, and [Renderer.Render] executes it for one
// request. [Machine] is what a template may use, beside these functions:
//
//	b64 V            V in base64
//	indent N V       V with N spaces before each line
//	quote V          V as one word of a POSIX shell
//	join SEP LIST    the members of a list with SEP between them
//	toJson V         V as JSON, which is YAML, too
//	trim V           V without white space at either end
//	file "PATH"      the content of a file in the template's directory or below it
//	bootstrapToken   a token that kubeadm and k3s accept
//
// A variable that does not exist is an error, and so is a template that renders nothing.
// Errors go back to the shard, where the need is short with the reason BootstrapError.
//
// Blobs are secrets. The package writes nothing of them, of variables and of files to logs,
// and quotes nothing of them in errors. It never asks the API server: who keeps the token is
// package jointoken, and what the machine does with the blob is the machine's.
package bootstrap
