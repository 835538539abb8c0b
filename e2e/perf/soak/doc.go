// Package soak breaks a hundred machines at random for as long as you like, and
// looks whether they are all there in the end, and whether the server that looks
// after them has grown.
//
// Its test has the build tag soak: it takes ten minutes by default, and `make soak`
// runs it. The seed that it prints makes the same choices again; when they happen
// depends on the machine.
package soak
