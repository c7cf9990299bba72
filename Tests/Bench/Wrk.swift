import Foundation

/// The load generator: as many connections as are wanted, each with one request on its way at all times.
struct Wrk {
    let settings: RunSettings
    let requests: RequestFile

    struct Outcome {
        let perSecond: Double
        /// Milliseconds from the first byte sent to the last one received.
        let p50: Double
        let p99: Double
        /// Processor time of the generator for a request, microseconds.
        let clientMicroseconds: Double
    }

    private struct Told: Decodable {
        let requests: Int
        let seconds: Double
        let p50: Double
        let p99: Double
        let notOK: Int
        let broken: Int
        let ranOut: Bool
    }

    /// - Parameters:
    ///   - limit: Send only so many of them, over and over; 0 sends each of them once.
    ///   - first: The number of the request to begin with.
    /// - Throws: If anything but a 200 was answered, or there were not enough bodies.
    func run(port: Int, limit: Int = 0, from first: Int = 0) throws -> Outcome {
        let script = settings.folder.file("send.lua")
        try Data(PackageResources.send_lua).write(to: URL(fileURLWithPath: script))
        let before = Self.childSeconds()
        let output = try Tool.run(
            try Tool.find("wrk"),
            [
                "-t1", "-c\(settings.connections)", "-d\(settings.seconds)s", "--timeout", "30s", "-s", script,
                "http://127.0.0.1:\(port)", "--", requests.path, String(limit),
                String(requests.offset(of: first)),
            ])
        guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("result ") }),
            let told = try? JSONDecoder().decode(Told.self, from: Data(line.dropFirst("result ".count).utf8))
        else { throw BenchError("wrk told nothing: \(output.suffix(300))") }
        guard !told.ranOut || limit > 0 else { throw BenchError("the bodies ran out: choose fewer --seconds") }
        guard told.notOK == 0, told.broken == 0, told.requests > 0 else {
            throw BenchError("of \(told.requests) answers \(told.notOK) were no 200, and \(told.broken) never came")
        }
        return Outcome(
            perSecond: Double(told.requests) / told.seconds, p50: told.p50, p99: told.p99,
            clientMicroseconds: (Self.childSeconds() - before) * 1e6 / Double(told.requests))
    }

    /// Of children that have ended and were waited for.
    private static func childSeconds() -> Double {
        var usage = rusage()
        getrusage(RUSAGE_CHILDREN.rawValue, &usage)
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
}
