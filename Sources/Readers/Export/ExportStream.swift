import Encoding
import Subscriptions

/// How far a stream was when an export began.
package struct ExportStream: Sendable, Hashable {
    package let id: Int32
    package let key: StreamKey
    package let mark: Mark

    package struct Mark: Sendable, Hashable {
        /// The last event.
        package let position: Int64
        /// The value of the hash chain there.
        package let chain: [UInt8]
        /// The last event in the projections.
        package let projected: Int64
        /// The last published change.
        package let change: Int64
        /// A digest of the settings and of the version from which the projections were computed. If it differs, every row
        /// may differ.
        package let settings: [UInt8]

        package init(position: Int64, chain: [UInt8], projected: Int64, change: Int64, settings: [UInt8]) {
            self.position = position
            self.chain = chain
            self.projected = projected
            self.change = change
            self.settings = settings
        }
    }

    package init(id: Int32, key: StreamKey, mark: Mark) {
        self.id = id
        self.key = key
        self.mark = mark
    }
}

/// Which tables an export has.
package enum ExportLayout: String, CaseIterable, Sendable {
    /// The log and the tables that were computed from it.
    case subledger
    /// One table of purchases, with the columns of a transaction export of RevenueCat, version 5.
    case revenueCat5 = "revenuecat-v5"

    package var tables: [ExportTable] {
        switch self {
        case .subledger: ExportTable.allCases.filter { $0 != .revenueCat }
        case .revenueCat5: [.revenueCat]
        }
    }

    /// The tables that are read one by one. The other rows of a subscription are read together with it.
    package var steps: [ExportTable] {
        switch self {
        case .subledger: [.events, .changes, .subscriptions, .customers]
        case .revenueCat5: [.revenueCat]
        }
    }
}

/// A row of an export.
package struct ExportRow: Sendable {
    package let table: ExportTable
    /// In the order of ``ExportTable/columns``; nil for SQL null.
    package let values: [String?]

    package init(table: ExportTable, values: [String?]) {
        self.table = table
        self.values = values
    }
}

/// Some rows of an export, in order.
package struct ExportBatch: Sendable {
    package let rows: [ExportRow]
    /// Where the next batch begins: what to pass to the reader as `after`. Nil if there is nothing more.
    package let next: [String]?
}
