// volley sends one prebuilt request over and over, with as little CPU as a sender can take: all requests that there is room for go
// out in one write, and of the answers that came in by one read only the error codes are looked at. kload.py takes as much CPU for
// a small request as the broker does, and so cannot say what two brokers do on two cores; this takes a tenth of that.
//
//	volley ADDRESS REQUEST_FILE CONNECTIONS DEPTH SECONDS ERROR_AT
//
// DEPTH requests are in flight on each connection. ERROR_AT is where an answer, its size included, has its error code of two bytes:
// one that is not 0 ends everything, with exit code 1. Prints one JSON object.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// answers counts whole answers in a stream of them.
type answers struct {
	buffer  []byte
	have    int
	errorAt int
}

// more reads once and returns how many answers have come whole. An error code in one of them is an error.
func (a *answers) more(connection net.Conn) (int, error) {
	got, err := connection.Read(a.buffer[a.have:])
	if err != nil {
		return 0, err
	}
	a.have += got
	count, at := 0, 0
	for a.have-at >= 4 {
		size := 4 + int(binary.BigEndian.Uint32(a.buffer[at:]))
		if size > len(a.buffer) {
			return 0, fmt.Errorf("an answer of %d bytes", size)
		}
		if a.have-at < size {
			break
		}
		if size < a.errorAt+2 {
			return 0, fmt.Errorf("an answer of %d bytes has no error code at %d", size, a.errorAt)
		}
		if code := binary.BigEndian.Uint16(a.buffer[at+a.errorAt:]); code != 0 {
			return 0, fmt.Errorf("error %d", int16(code))
		}
		count, at = count+1, at+size
	}
	a.have = copy(a.buffer, a.buffer[at:a.have])
	return count, nil
}

// send keeps depth requests in flight until the time, and returns how many were answered.
func send(address string, request []byte, depth, errorAt int, until time.Time) (int, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	all := make([]byte, 0, depth*len(request))
	for range depth {
		all = append(all, request...)
	}
	received := answers{buffer: make([]byte, 1<<20), errorAt: errorAt}
	room, inFlight, done := depth, 0, 0
	for {
		if room > 0 && time.Now().Before(until) {
			if _, err := connection.Write(all[:room*len(request)]); err != nil {
				return done, err
			}
			inFlight += room
		}
		if inFlight == 0 {
			return done, nil
		}
		if room, err = received.more(connection); err != nil {
			return done, err
		}
		inFlight -= room
		done += room
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 {
		end(fmt.Errorf("%q is not a number above 0", text))
	}
	return value
}

func end(err error) {
	fmt.Fprintln(os.Stderr, "volley:", err)
	os.Exit(1)
}

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		end(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func main() {
	if len(os.Args) != 7 {
		end(fmt.Errorf("usage: volley ADDRESS REQUEST_FILE CONNECTIONS DEPTH SECONDS ERROR_AT"))
	}
	request, err := os.ReadFile(os.Args[2])
	if err != nil {
		end(err)
	}
	connections, depth, seconds, errorAt := number(os.Args[3]), number(os.Args[4]), number(os.Args[5]), number(os.Args[6])
	type result struct {
		done int
		err  error
	}
	results := make(chan result, connections)
	began := time.Now()
	for range connections {
		go func() {
			done, err := send(os.Args[1], request, depth, errorAt, began.Add(time.Duration(seconds)*time.Second))
			results <- result{done, err}
		}()
	}
	total := 0
	for range connections {
		each := <-results
		if each.err != nil {
			end(each.err)
		}
		total += each.done
	}
	took := time.Since(began).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"requests": float64(total), "seconds": took, "requests_per_s": float64(total) / took, "cpu_s": cpu(),
	}); err != nil {
		end(err)
	}
}
