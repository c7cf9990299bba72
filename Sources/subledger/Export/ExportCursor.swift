import Encoding
import Readers
import Subscriptions

/// Where an export ended, as the text that the next one begins with.
struct ExportCursor: Equatable {
    /// The number of the export that ended here.
    let export: Int64
    let layout: ExportLayout
    /// What was exported; nil for everything.
    let app: String?
    let environment: Environment?
    let marks: [StreamKey: ExportStream.Mark]

    /// Base64url of a JSON object.
    var text: String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("version", Int64(1))
            writer.member("export", export)
            // Cursors of releases before name none.
            writer.member("layout", layout == .subledger ? nil : layout.rawValue)
            writer.member("app", app)
            writer.member("environment", environment?.rawValue)
            writer.key("streams")
            writer.array(ordered) { writer, stream in
                writer.object { writer in
                    writer.member("app", stream.key.app)
                    writer.member("environment", stream.key.environment.rawValue)
                    writer.member("position", stream.mark.position)
                    writer.member("chain", Hex.text(stream.mark.chain))
                    writer.member("projected", stream.mark.projected)
                    writer.member("change", stream.mark.change)
                    writer.member("settings", Hex.text(stream.mark.settings))
                }
            }
        }
        return Base64.text(writer.bytes, .url)
    }

    var ordered: [(key: StreamKey, mark: ExportStream.Mark)] {
        marks.map { ($0.key, $0.value) }
            .sorted { ($0.key.app, $0.key.environment.rawValue) < ($1.key.app, $1.key.environment.rawValue) }
    }

    init(
        export: Int64, layout: ExportLayout, app: String?, environment: Environment?,
        marks: [StreamKey: ExportStream.Mark]
    ) {
        self.export = export
        self.layout = layout
        self.app = app
        self.environment = environment
        self.marks = marks
    }

    /// - Returns: Nil if the text is not a cursor of an export.
    init?(_ text: String) {
        guard let bytes = Base64.decode(Array(text.utf8)[...], .url), let json = try? JSONDocument(bytes).root,
            json["version"]?.int64 == 1, let export = json["export"]?.int64, export > 0,
            let layout = ExportLayout(rawValue: json["layout"]?.string ?? ExportLayout.subledger.rawValue),
            let streams = json["streams"], streams.isArray
        else { return nil }
        var marks: [StreamKey: ExportStream.Mark] = [:]
        for stream in streams.elements {
            guard let app = stream["app"]?.string,
                let environment = stream["environment"]?.string.flatMap({ Environment(rawValue: $0) }),
                let position = stream["position"]?.int64, let chain = Self.digest(stream["chain"]),
                let projected = stream["projected"]?.int64, let change = stream["change"]?.int64,
                let settings = Self.digest(stream["settings"])
            else { return nil }
            marks[StreamKey(app: app, environment: environment)] = ExportStream.Mark(
                position: position, chain: chain, projected: projected, change: change, settings: settings)
        }
        let named = json["environment"]?.string
        let environment = named.flatMap { Environment(rawValue: $0) }
        guard named == nil || environment != nil else { return nil }
        self.init(export: export, layout: layout, app: json["app"]?.string, environment: environment, marks: marks)
    }

    private static func digest(_ json: JSONValue?) -> [UInt8]? {
        guard let text = json?.string else { return nil }
        let bytes = Array(text.utf8).withUnsafeBufferPointer { Hex.bytes($0) }
        return bytes?.count == 32 ? bytes : nil
    }
}
