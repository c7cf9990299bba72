import Foundation

/// What the process uses, with the names that Prometheus' own libraries give these metrics.
///
/// Figures that the system does not show are absent: all but the processor time come from `/proc`.
struct ProcessFigures: Sendable {
    var cpuSeconds: Double?
    var residentBytes: Int64?
    var virtualBytes: Int64?
    var openFiles: Int?
    var openFilesMax: UInt64?
    /// Seconds since 1970.
    var startSeconds: Double?

    static func read() -> ProcessFigures {
        var figures = ProcessFigures(cpuSeconds: cpuSeconds())
        if let pages = fields("/proc/self/statm"), pages.count > 1, let all = Int64(pages[0]),
            let resident = Int64(pages[1])
        {
            let pageBytes = Int64(sysconf(Int32(_SC_PAGESIZE)))
            figures.virtualBytes = all * pageBytes
            figures.residentBytes = resident * pageBytes
        }
        // The folder that is being read is one of the open files itself.
        figures.openFiles = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")).map { $0.count - 1 }
        figures.openFilesMax = openFilesMax()
        figures.startSeconds = startSeconds
        return figures
    }

    /// In Prometheus' text format.
    var text: String {
        line("process_cpu_seconds_total", "counter", cpuSeconds) + line("process_max_fds", "gauge", openFilesMax)
            + line("process_open_fds", "gauge", openFiles)
            + line("process_resident_memory_bytes", "gauge", residentBytes)
            + line("process_start_time_seconds", "gauge", startSeconds)
            + line("process_virtual_memory_bytes", "gauge", virtualBytes)
    }

    private func line(_ name: String, _ type: String, _ value: (some CustomStringConvertible)?) -> String {
        guard let value else { return "" }
        return MetricDescriptions.head(of: name, type) + "\(name) \(value)\n"
    }

    private static func cpuSeconds() -> Double? {
        var time = timespec()
        guard clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 else { return nil }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }

    private static func openFilesMax() -> UInt64? {
        guard let lines = text("/proc/self/limits")?.split(separator: "\n"),
            let line = lines.first(where: { $0.hasPrefix("Max open files") })
        else { return nil }
        return line.split(separator: " ").compactMap { UInt64($0) }.first
    }

    /// The start of the system plus the ticks until the start of the process.
    private static let startSeconds: Double? = {
        // The second field is the name of the program, in brackets, and may contain spaces.
        guard let fields = text("/proc/self/stat")?.split(separator: ")").last?.split(separator: " "),
            fields.count > 19, let ticks = Double(fields[19]),
            let boot = text("/proc/stat")?.split(separator: "\n").first(where: { $0.hasPrefix("btime ") }),
            let bootSeconds = Double(boot.dropFirst("btime ".count))
        else { return nil }
        return bootSeconds + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
    }()

    private static func fields(_ path: String) -> [Substring]? { text(path)?.split(whereSeparator: \.isWhitespace) }

    private static func text(_ path: String) -> String? {
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        return String(decoding: data, as: UTF8.self)
    }
}
