import Encoding
import TestSupport
import Testing

@testable import EventLog

@Suite("The Merkle tree of a stream is that of RFC 6962")
struct MerkleTreeTests {
    /// The hashes of leaves with small tiles of nodes above them, made by definition.
    private struct Tree {
        private(set) var levels: [[[UInt8]]] = [[]]

        init(_ leaves: [[UInt8]]) {
            levels = [leaves]
            while levels[levels.count - 1].count > 1 {
                let below = levels[levels.count - 1]
                levels.append(
                    stride(from: 0, to: below.count - 1, by: 2).map { MerkleTree.node(below[$0], below[$0 + 1]) })
            }
        }

        func hash(_ node: MerkleTree.Node) -> [UInt8] { levels[node.level][Int(node.index)] }

        func root(_ size: Int64) -> [UInt8] { MerkleTree.root(size: size) { hash($0) } }
    }

    /// The entries of Go's tests of package tlog.
    private static func leaf(_ number: Int) -> [UInt8] { MerkleTree.leaf(Array("leaf \(number)".utf8)) }

    /// The largest trees whose proofs are all tried. Even in the normal run they have seven levels above their leaves.
    private static let inclusions = TestScale.count(150, full: 600)
    private static let consistencies = TestScale.count(100, full: 300)

    /// The root by the text of RFC 6962, section 2.1.
    private static func definition(_ leaves: ArraySlice<[UInt8]>) -> [UInt8] {
        guard leaves.count > 1 else { return leaves[leaves.startIndex] }
        var power = 1
        while power * 2 < leaves.count { power *= 2 }
        return MerkleTree.node(definition(leaves.prefix(power)), definition(leaves.dropFirst(power)))
    }

    private static func bytes(_ hex: String) throws -> [UInt8] {
        try #require(Array(hex.utf8).withUnsafeBufferPointer { Hex.bytes($0) })
    }

    @Test("roots and proofs are those of the reference implementation of Certificate Transparency")
    func vectors() throws {
        let entries = [
            "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
        ]
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ]
        let tree = Tree(try entries.map { MerkleTree.leaf(try Self.bytes($0)) })

        #expect((1...8).map { Hex.text(tree.root($0)) } == roots)
        #expect(
            Hex.text(tree.root(0)) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        let inclusion = MerkleTree.inclusion(of: 5, size: 8) { tree.hash($0) }
        #expect(
            inclusion.map { Base64.text($0) } == [
                "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms=", "yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA=",
                "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
            ])
        let consistency = MerkleTree.consistency(from: 3, to: 7) { tree.hash($0) }
        #expect(
            consistency.map { Base64.text($0) } == [
                "ApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c=", "B1Bqhf2d0vEg62lPhgEeW7RmLlxBWmKRcDPUqWJEh+c=",
                "+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=", "g327FS6bB5AQcX6E6GXaTrwPoZioBtWdMb8VrM7yLQ4=",
            ])
    }

    @Test("larger roots are those that Go's package tlog computes, also leaf by leaf")
    func largerVectors() {
        let roots = [
            100: "13f88915c560dc911a1da0fb209d84a20971051f294ebeb428fb3fc293af2743",
            257: "855b936aa00cb98b5114484249ad39d78a6be93623e26c01e8e487dc02184a5a",
            600: "61e5b79b4aeb46d745d232a9e19e8517f31a08f5bfc07a474aa5b82ab5801bda",
            70000: "da0532ff7b2ee56f4067110fc964e9f27b5959f9527bfff3fa501aa7584deaf3",
        ]
        var frontier = TreeFrontier()
        for number in 0..<70000 {
            frontier.append(Self.leaf(number))
            if let root = roots[number + 1] { #expect(Hex.text(frontier.root) == root, "\(number + 1)") }
        }
        #expect(frontier.size == 70000)
    }

    @Test("of every size, every proof of inclusion holds, and the root is that of the definition")
    func everyInclusion() {
        let leaves = (0..<Self.inclusions).map { Self.leaf($0) }
        let tree = Tree(leaves)
        var frontier = TreeFrontier()
        for size in 1...Self.inclusions {
            frontier.append(leaves[size - 1])
            let root = tree.root(Int64(size))
            #expect(root == frontier.root, "\(size)")
            if size < 70 || size > Self.inclusions - 10 {
                #expect(root == Self.definition(leaves.prefix(size)), "\(size)")
            }
            var failed: [Int] = []
            for index in 0..<size {
                let proof = MerkleTree.inclusion(of: Int64(index), size: Int64(size)) { tree.hash($0) }
                let holds = MerkleTree.includes(
                    leaves[index], at: Int64(index), size: Int64(size), root: root, proof: proof)
                if !holds || proof.count > 10 { failed.append(index) }
            }
            #expect(failed == [], "\(size)")
        }
    }

    @Test("of every size, every proof of consistency with a smaller one holds, and with another root none")
    func everyConsistency() {
        let sizes = Self.consistencies
        let tree = Tree((0..<sizes).map { Self.leaf($0) })
        let roots = (0...sizes).map { tree.root(Int64($0)) }
        for size in 0...sizes {
            var failed: [Int] = []
            for old in 0...size {
                let proof = MerkleTree.consistency(from: Int64(old), to: Int64(size)) { tree.hash($0) }
                func holds(_ oldRoot: [UInt8], _ root: [UInt8]) -> Bool {
                    MerkleTree.isConsistent(oldRoot, size: Int64(old), with: root, size: Int64(size), proof: proof)
                }
                let isRight = holds(roots[old], roots[size]) && !holds(roots[(old + 1) % sizes], roots[size])
                // Every tree extends an empty one.
                if !isRight || old > 0 && holds(roots[old], roots[(size + 1) % sizes]) { failed.append(old) }
            }
            #expect(failed == [], "\(size)")
        }
    }

    @Test("a proof with any byte changed, one hash more or less, or of another place is refused")
    func changed() {
        let leaves = (0..<13).map { Self.leaf($0) }
        let tree = Tree(leaves)
        let roots = (0...13).map { tree.root(Int64($0)) }
        func variants(_ proof: [[UInt8]]) -> [[[UInt8]]] {
            var all = [proof + [leaves[0]], Array(proof.dropLast()), Array(proof.dropFirst()), [leaves[0]] + proof]
            if proof.count > 1 { all.append(proof.reversed()) }
            for hash in proof.indices {
                for byte in 0..<32 {
                    var copy = proof
                    copy[hash][byte] ^= 1
                    all.append(copy)
                }
                var short = proof
                short[hash].removeLast()
                all.append(short)
            }
            return all.filter { $0 != proof }
        }
        for size in 1...13 {
            for index in 0..<size {
                let proof = MerkleTree.inclusion(of: Int64(index), size: Int64(size)) { tree.hash($0) }
                func includes(_ leaf: [UInt8], _ index: Int, _ size: Int, _ proof: [[UInt8]]) -> Bool {
                    MerkleTree.includes(
                        leaf, at: Int64(index), size: Int64(size), root: roots[min(max(size, 0), 13)], proof: proof)
                }
                #expect(includes(leaves[index], index, size, proof))
                #expect(variants(proof).allSatisfy { !includes(leaves[index], index, size, $0) }, "\(index) of \(size)")
                let elsewhere = (-1...14).filter { $0 != index && includes(leaves[index], $0, size, proof) }
                #expect(elsewhere == [], "\(index) of \(size)")
                #expect(!includes(Self.leaf(99), index, size, proof))
            }
            for old in 0..<size where old > 0 {
                let proof = MerkleTree.consistency(from: Int64(old), to: Int64(size)) { tree.hash($0) }
                func isConsistent(_ old: Int, _ proof: [[UInt8]]) -> Bool {
                    MerkleTree.isConsistent(
                        roots[max(old, 0)], size: Int64(old), with: roots[size], size: Int64(size), proof: proof)
                }
                #expect(isConsistent(old, proof))
                #expect(variants(proof).allSatisfy { !isConsistent(old, $0) }, "\(old) to \(size)")
                #expect((-1...13).filter { $0 != old && isConsistent($0, proof) } == [], "\(old) to \(size)")
            }
        }
    }

    @Test("nodes of tiles are those of the tree, and a missing or short tile is named")
    func tiles() throws {
        let count = 256 * 3 + 17
        let leaves = (0..<count).map { Self.leaf($0) }
        let tree = Tree(leaves)
        var tiles = TreeTiles()
        for number in 0...3 {
            tiles[TreeTile(level: 0, number: Int64(number))] = Array(
                leaves[number * 256..<min((number + 1) * 256, count)])
        }
        let above = TreeTile(level: 1, number: 0)
        let missing = TreeTiles.MissingTile(tile: above)
        #expect(throws: missing) { try tiles.hash(of: MerkleTree.Node(level: 9, index: 0)) }
        tiles[above] = (0..<3).map { MerkleTree.root(of: leaves[$0 * 256..<$0 * 256 + 256]) }

        for (level, hashes) in tree.levels.enumerated() {
            for index in hashes.indices {
                let node = MerkleTree.Node(level: level, index: Int64(index))
                #expect(try tiles.hash(of: node) == hashes[index], "\(level) \(index)")
            }
        }
        #expect(throws: missing) { try tiles.hash(of: MerkleTree.Node(level: 8, index: 3)) }
        let needs = TreeTiles.needs { hash in _ = MerkleTree.inclusion(of: 700, size: Int64(count), hash) }
        #expect(needs == [TreeTile(level: 0, number: 2): 256, TreeTile(level: 0, number: 3): 17, above: 2])
    }

    @Test("a proof of one of 10^9 events has at most 30 hashes, and needs few tiles")
    func size() {
        let events: Int64 = 1_000_000_000
        for index in [0, 1, 255, 256, 499_999_999, 536_870_911, 536_870_912, events - 257, events - 1] {
            var hashes = 0
            let needs = TreeTiles.needs { hash in
                hashes = MerkleTree.inclusion(of: index, size: events, hash).count
            }
            #expect(hashes <= 30 && needs.count <= 8, "\(index): \(hashes) hashes, \(needs.count) tiles")
        }
    }
}
